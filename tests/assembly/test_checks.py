"""What is looked at before any work starts."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from toolorchestra.assembly import Check, examine, refuse
from toolorchestra.assembly.training import check_trainable
from toolorchestra.config import Settings, load_settings
from toolorchestra.errors import UnreachableError, UserError
from toolorchestra.testing import MockChatServer

Configure = Callable[..., Path]

RULE = 'orchestrator: {model: "rule:random"}\n'


@pytest.fixture
def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def look(path: Path) -> dict[str, Check]:
    return {check.subject: check for check in await examine(load_settings(path, check_files=False))}


async def test_a_sound_configuration_passes(market: Settings) -> None:
    checks = await examine(market)
    assert [check.subject for check in checks if not check.ok] == []
    assert {check.subject for check in checks} == {
        "orchestrator: price",
        "models.small: price",
        "models.large: price",
        "tools.notes: price",
        "tools.notes: folder",
    }
    refuse(checks)


class TestFound:
    async def test_a_key_that_is_not_set(self, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SOME_KEY", raising=False)
        text = RULE + 'models: {a: {base_url: "http://127.0.0.1:9/v1", api_key_env: SOME_KEY, price: {free: true}}}\n'
        check = (await look(configure(text)))["models.a: key"]
        assert not check.ok
        assert check.detail.startswith("models.a.api_key_env: the environment variable SOME_KEY is not set; set it")

    async def test_the_value_of_a_key_is_not_shown(self, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SOME_KEY", "very-secret-value")
        text = RULE + 'models: {a: {base_url: "http://127.0.0.1:9/v1", api_key_env: SOME_KEY, price: {free: true}}}\n'
        checks = await look(configure(text))
        assert checks["models.a: key"].ok
        assert not any("very-secret" in check.detail for check in checks.values())

    async def test_an_endpoint_that_answers(self, configure: Configure) -> None:
        async with MockChatServer([]) as server:
            text = RULE + f'models: {{a: {{base_url: "{server.base_url}", price: {{free: true}}}}}}\n'
            checks = await look(configure(text))
            assert server.count == 0
        assert checks["models.a: endpoint"].ok

    async def test_an_endpoint_that_does_not(self, configure: Configure, closed_port: int) -> None:
        url = f"http://127.0.0.1:{closed_port}"
        text = RULE + f'models: {{search: {{base_url: "{url}", price: {{free: true}}}}}}\n'
        check = (await look(configure(text)))["models.search: endpoint"]
        assert (check.ok, check.unreachable) == (False, True)
        assert check.detail.startswith(f"models.search: {url} is not reachable (")
        assert "start the server, or correct models.search.base_url" in check.detail

    async def test_a_server_that_is_silent(self, configure: Configure) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            settings = load_settings(
                configure(f'orchestrator: {{model: m, base_url: "{url}", price: {{free: true}}}}\n')
            )
            checks = await examine(settings, timeout_s=0.1)
        assert "no answer within 0.1 s" in next(check.detail for check in checks if check.unreachable)

    @pytest.mark.parametrize(
        ("text", "subject", "words"),
        [
            ("orchestrator: {model: ./none, price: {free: true}}\n", "orchestrator: model", "no such model folder: "),
            ("orchestrator: {model: notes/, price: {free: true}}\n", "orchestrator: model", "config.json is missing"),
            ("orchestrator: {model: gpt-99, price: {free: true}}\n", "orchestrator: model", "the bundled one: smollm2"),
            ("orchestrator: {model: smollm2}\n", "orchestrator: price", "no price is stated"),
            (RULE + "prices: {override: p.yaml}\n", "prices.override", "no such file; create it"),
            (RULE + "models: {a: {provider: recorded, path: a.jsonl}}\n", "models.a: answers", "no such table"),
            (RULE + "tools: {s: {kind: search, folder: none}}\n", "tools.s: folder", "put the text files"),
            (RULE + "tools: {s: {kind: search, folder: empty}}\n", "tools.s: folder", "holds no text"),
            (RULE + "tasks: {test: none.jsonl}\n", "tasks.test", "no such task file"),
            (RULE + "tasks: {train: void.jsonl}\n", "tasks.train", "the task file is empty"),
            (RULE + "tasks: {train: blank.jsonl}\n", "tasks.train", "the answer is empty"),
            (RULE + "tasks: {train: lacking.jsonl}\n", "tasks.train", "the task has no 'answer'"),
        ],
    )
    async def test_something_is_missing(
        self, configure: Configure, tmp_path: Path, text: str, subject: str, words: str
    ) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "void.jsonl").touch()
        (tmp_path / "blank.jsonl").write_text('{"id": "1", "question": "Why?", "answer": " "}\n', encoding="utf-8")
        (tmp_path / "lacking.jsonl").write_text('{"id": "1", "question": "Why?"}\n', encoding="utf-8")
        checks = await look(configure(text))
        assert [check.subject for check in checks.values() if not check.ok] == [subject]
        assert words in checks[subject].detail

    async def test_the_sandbox_is_tried(self, configure: Configure) -> None:
        check = (await look(configure(RULE + "tools: {py: {kind: code}}\n")))["tools: sandbox"]
        assert check.ok
        assert check.detail.startswith(("bubblewrap: ", "monty: "))


class TestRefusing:
    WRONG = Check("tasks.test", False, "x.jsonl: no such task file")
    SILENT = Check("models.a: endpoint", False, "models.a: http://x is not reachable", unreachable=True)
    FINE = Check("orchestrator: price", True, "free")

    def test_nothing_to_refuse(self) -> None:
        refuse([self.FINE])

    def test_what_is_only_silent_is_unreachable(self) -> None:
        with pytest.raises(UnreachableError) as caught:
            refuse([self.FINE, self.SILENT])
        assert str(caught.value) == "models.a: http://x is not reachable"

    def test_all_complaints_are_told_at_once(self) -> None:
        with pytest.raises(UserError) as caught:
            refuse([self.WRONG, self.SILENT])
        assert caught.value.exit_code == 2
        assert str(caught.value).splitlines() == ["tasks.test: x.jsonl: no such task file", self.SILENT.detail]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RULE, "a fixed rule cannot be trained"),
        ('orchestrator: {model: m, base_url: "http://x/v1", price: {free: true}}\n', "behind an endpoint cannot be"),
    ],
)
def test_only_a_model_in_a_folder_can_be_trained(configure: Configure, text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        check_trainable(load_settings(configure(text)))


@pytest.mark.parametrize(
    ("text", "words"), [("", "tasks.train is missing"), ("tasks: {train: t.jsonl}\n", "tools is missing")]
)
def test_training_needs_tasks_and_tools(configure: Configure, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "t.jsonl").write_text('{"id": "1", "question": "Why?", "answer": "So."}\n', encoding="utf-8")
    settings = load_settings(configure("orchestrator: {model: ./model, price: {free: true}}\n" + text))
    with pytest.raises(UserError, match=words):
        check_trainable(settings)
