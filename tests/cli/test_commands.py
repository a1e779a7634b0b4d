"""The commands, as a user calls them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from toolorchestra.cli import app
from toolorchestra.testing import Fault, MockChatServer, MockReply

Write = Callable[..., Path]

MARKET = """\
orchestrator: {model: "rule:cheapest-first"}
models:
  small: {provider: simulated, price: {input: 1, output: 1}, skills: {easy: 1}, seconds: 0.5}
  large: {provider: simulated, price: {input: 9, output: 9}, skills: {easy: 1}, seconds: 3}
tools: {ask_small: {kind: model, model: small}, ask_large: {kind: model, model: large}}
prices: {base: null}
tasks: {test: tasks.jsonl}
"""
TASK = '{"id": "1", "question": "What is one?", "answer": "uno", "kind": "easy"}\n'
COMMANDS = ("demo", "train", "evaluate", "run", "report", "doctor")


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.jsonl").write_text(TASK, encoding="utf-8")

    def write(text: str = MARKET) -> Path:
        path = tmp_path / "orchestra.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def server() -> Iterator[MockChatServer]:
    with MockChatServer(lambda request: MockReply("uno")).threaded() as server:
        yield server


class TestHelp:
    def test_the_program(self) -> None:
        shown = call("--help")
        assert shown.exit_code == 0
        assert all(command in shown.stdout for command in COMMANDS)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_examples(self, command: str) -> None:
        shown = call(command, "--help")
        assert shown.exit_code == 0
        assert "Examples" in shown.stdout
        assert f"toolorchestra {command}" in shown.stdout

    def test_the_version(self) -> None:
        assert re.fullmatch(r"toolorchestra \d+\.\d+\.\d+\n", call("--version").stdout)

    def test_a_wrong_option_is_the_users_error(self) -> None:
        assert call("evaluate", "x.yaml", "--sampels", "2").exit_code == 2


class TestEvaluate:
    def test_the_table_and_the_files(self, write: Write) -> None:
        shown = call("evaluate", write(), "--out", "run")
        assert shown.exit_code == 0, shown.output
        assert "cheapest first" in shown.stdout
        assert "always ask_large" in shown.stdout
        assert "cheapest first: 1/1" in shown.stderr
        assert "report: run/report.html" in shown.stdout
        names = {path.name for path in Path("run").iterdir()} - {".lock"}
        assert names == {"run.json", "trajectories.jsonl", "tasks.jsonl", "summary.json", "report.html"}

    def test_the_folder_has_a_name_by_itself(self, write: Write) -> None:
        assert call("evaluate", write(), "tasks.jsonl", "--baselines", "none").exit_code == 0
        assert Path("runs/orchestra-tasks/report.html").is_file()

    def test_missing_episodes_are_told(self, write: Write) -> None:
        with MockChatServer(lambda request: Fault.error(503, "overloaded")).threaded() as server:
            script = f'orchestrator: {{model: m, base_url: "{server.base_url}", price: {{free: true}}, retries: 0}}\n'
            shown = call("evaluate", write(script + "tasks: {test: tasks.jsonl}\n"), "--out", "run")
        assert shown.exit_code == 1
        assert "1 episodes are missing; the same command tries them again" in shown.stderr
        assert "1 missing" in shown.stdout


class TestReport:
    def test_a_run_again(self, write: Write) -> None:
        call("evaluate", write(), "--out", "run")
        Path("run/report.html").unlink()
        shown = call("report", "run")
        assert shown.exit_code == 0
        assert "cheapest first" in shown.stdout
        assert Path("run/report.html").is_file()

    def test_no_run(self, tmp_path: Path) -> None:
        shown = call("report", tmp_path / "none")
        assert (shown.exit_code, shown.stdout) == (2, "")
        assert "no run is here (run.json is missing); check the path" in shown.stderr


class TestRun:
    def test_turns_answer_and_totals(self, write: Write) -> None:
        shown = call("run", "What is one?", "--config", write())
        assert shown.exit_code == 0, shown.output
        lines = shown.stdout.splitlines()
        assert re.fullmatch(r"1  ask_small\(\{\}\)  \(\$0\.0001\d+  0\.50 s\)", lines[0])
        assert lines[1].strip() == "uno."
        assert "uno" in lines
        assert lines[-1].endswith("2 turns  1 × ask_small")

    def test_json_is_all_that_is_printed(self, write: Write) -> None:
        shown = call("run", "What is one?", "--config", write(), "--json")
        told = json.loads(shown.stdout)
        assert (told["answer"], told["calls"], told["seconds"]) == ("uno", {"ask_small": 1}, 0.5)

    def test_a_preference_reaches_the_orchestrator(self, write: Write, server: MockChatServer) -> None:
        text = f'orchestrator: {{model: m, base_url: "{server.base_url}", price: {{input: 1, output: 1}}}}\n'
        shown = call("run", "What is one?", "--config", write(text), "--preference", "Use the search.")
        assert shown.exit_code == 0, shown.output
        assert server.requests[0].json["messages"][-1]["content"] == "What is one?\nUse the search."

    def test_what_models_say_is_shown_as_it_is(self, write: Write) -> None:
        with MockChatServer([MockReply("[bold]uno[/bold] \x1b[31m:boom:")]).threaded() as server:
            text = f'orchestrator: {{model: m, base_url: "{server.base_url}", price: {{free: true}}}}\n'
            shown = call("run", "What is one?", "--config", write(text))
        assert "[bold]uno[/bold] \ufffd[31m:boom:" in shown.stdout

    def test_an_empty_question(self, write: Write) -> None:
        shown = call("run", " ", "--config", write())
        assert shown.exit_code == 2
        assert "error: the question is empty" in shown.stderr

    def test_a_lost_episode_is_no_answer(self, write: Write) -> None:
        with MockChatServer(lambda request: Fault.error(503, "overloaded")).threaded() as server:
            text = f'orchestrator: {{model: m, base_url: "{server.base_url}", price: {{free: true}}, retries: 0}}\n'
            shown = call("run", "What is one?", "--config", write(text))
        assert shown.exit_code == 1
        assert "no answer" in shown.stdout
        assert "error: the episode was lost: AttemptsFailedError" in shown.stderr


class TestDoctor:
    def test_all_is_well(self, write: Write) -> None:
        shown = call("doctor", write())
        assert shown.exit_code == 0
        assert "all 5 checks passed" in shown.stdout

    def test_json(self, write: Write) -> None:
        found = json.loads(call("doctor", write(), "--json").stdout)
        assert {check["subject"]: check["ok"] for check in found}["tasks.test"] is True

    def test_a_missing_file(self, write: Write) -> None:
        shown = call("doctor", write(MARKET.replace("tasks.jsonl", "none.jsonl")))
        assert shown.exit_code == 2
        assert "FAIL" in shown.stdout
        assert "1 of 4 checks failed" in shown.stdout

    def test_tasks_that_do_not_fit(self, write: Write) -> None:
        config = write()
        Path("tasks.jsonl").write_text(TASK.replace('"kind"', '"tools": ["ask"], "kind"'), encoding="utf-8")
        shown = call("doctor", config)
        assert shown.exit_code == 2
        assert "task '1': no tool 'ask' under tools" in shown.stdout

    def test_an_endpoint_that_does_not_answer(self, write: Write) -> None:
        text = MARKET + "judge: {kind: model, model: search}\n"
        text = text.replace("models:\n", 'models:\n  search: {base_url: "http://127.0.0.1:9", price: {free: true}}\n')
        shown = call("doctor", write(text), "--json")
        assert shown.exit_code == 3
        failed = next(check for check in json.loads(shown.stdout) if not check["ok"])
        assert "models.search: http://127.0.0.1:9 is not reachable" in failed["detail"]


class TestBadInput:
    """Each names itself and the fix before any work starts, and ends with 2."""

    @pytest.mark.parametrize("command", ["evaluate", "train", "doctor"])
    def test_no_settings_file(self, write: Write, command: str) -> None:
        shown = call(command, "endpoints.yaml")
        assert (shown.exit_code, shown.stdout) == (2, "")
        assert "endpoints.yaml: no such settings file; correct the path, or create it" in shown.stderr

    @pytest.mark.parametrize(
        ("settings", "tasks", "words"),
        [
            (MARKET, "", "tasks.jsonl: the task file is empty. Write one object with id, question and answer a line"),
            (MARKET, '{"id": "1", "question": "Why?"}\n', "tasks.jsonl:1: the task has no 'answer'; every task needs"),
            (
                MARKET.replace(
                    "small: {provider: simulated, price: {input: 1, output: 1},", "small: {base_url: 'http://x',"
                ).replace("skills: {easy: 1}, seconds: 0.5", "seconds: 0.5"),
                TASK,
                "models.small: no price is known for the model 'small', and an unknown price is not $0",
            ),
            (
                MARKET + "preference: {compute: 1.5}\n",
                TASK,
                "preference.compute (line 8): must be at most 1, got '1.5'",
            ),
            (
                MARKET,
                TASK.replace('"kind"', '"preference": {"latency": -1}, "kind"'),
                "tasks.jsonl:1: preference.latency is -1: every weight is a number from 0",
            ),
            (
                MARKET.replace('"rule:cheapest-first"', "./runs/none, price: {free: true}"),
                TASK,
                "train one (toolorchestra train) or correct the path",
            ),
            (MARKET, TASK.replace('"kind"', '"tools": ["ask"], "kind"'), "task '1': no tool 'ask' under tools"),
        ],
    )
    def test_evaluate(self, write: Write, settings: str, tasks: str, words: str) -> None:
        config = write(settings)
        Path("tasks.jsonl").write_text(tasks, encoding="utf-8")
        shown = call("evaluate", config, "tasks.jsonl", "--out", "run")
        assert shown.exit_code == 2
        assert words in shown.stderr
        assert shown.stderr.startswith("error: ")
        assert "Traceback" not in shown.output
        assert not Path("run").exists()

    def test_a_rule_cannot_be_trained(self, write: Write) -> None:
        shown = call("train", write(MARKET))
        assert shown.exit_code == 2
        assert "a fixed rule cannot be trained here; name a model folder" in shown.stderr

    def test_nothing_is_paid_before_everything_answers(self, write: Write, server: MockChatServer) -> None:
        text = MARKET.replace(
            '{model: "rule:cheapest-first"}', f'{{model: m, base_url: "{server.base_url}", price: {{free: true}}}}'
        )
        text = text.replace("models:\n", 'models:\n  search: {base_url: "http://127.0.0.1:9", price: {free: true}}\n')
        for words in (["evaluate", write(text)], ["run", "Why?", "--config", write(text)]):
            shown = call(*words)
            assert shown.exit_code == 3
            assert "models.search: http://127.0.0.1:9 is not reachable" in shown.stderr
        assert server.count == 0


class TestFailures:
    def test_what_nobody_expected(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("TOOLORCHESTRA_DEBUG", raising=False)
        monkeypatch.setattr("toolorchestra.config.load_settings", _explode)
        shown = call("doctor", write())
        assert shown.exit_code == 1
        assert shown.stderr.startswith("unexpected error: ZeroDivisionError: oh\nSet TOOLORCHESTRA_DEBUG=1 and run")

    def test_with_the_traceback(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TOOLORCHESTRA_DEBUG", "1")
        monkeypatch.setattr("toolorchestra.config.load_settings", _explode)
        shown = call("doctor", write())
        assert shown.exit_code == 1
        assert 'raise ZeroDivisionError("oh")' in shown.stderr
        assert shown.stderr.endswith("unexpected error: ZeroDivisionError: oh\n")

    def test_a_users_error_keeps_its_code_with_the_traceback(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOOLORCHESTRA_DEBUG", "1")
        shown = call("doctor", "none.yaml")
        assert shown.exit_code == 2
        assert "Traceback" in shown.stderr


class TestDemo:
    """Its wiring only: the demo itself takes minutes and has tests of its own."""

    def test_progress_claims_and_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from toolorchestra.demo import DemoProgress, DemoResult
        from toolorchestra.evaluation import Claim

        asked: dict[str, object] = {}

        def run_demo(folder: Path, *, on_progress: Callable[[DemoProgress], None], **options: object) -> DemoResult:
            asked.update(options, folder=folder)
            on_progress(DemoProgress("grpo", 2, 2, {"reward": 0.5}))
            claims = [Claim("cheap", "30%", "at most 40%", True), Claim("right", "80%", "at least 90%", False)]
            return DemoResult(folder, folder / "report.html", folder / "training" / "model", claims)

        monkeypatch.setattr("toolorchestra.demo.run_demo", run_demo)
        shown = call("demo", "--out", tmp_path / "demo", "--quick", "--seed", "7")
        assert shown.exit_code == 0, shown.output
        assert asked == {"folder": tmp_path / "demo", "quick": True, "seed": 7}
        assert "grpo: 2/2  reward 0.5" in shown.stderr
        assert "NOT met" in shown.stdout
        assert f"report: {tmp_path / 'demo' / 'report.html'}" in shown.stdout.replace("\n", "")


def _explode(*arguments: object, **options: object) -> None:
    raise ZeroDivisionError("oh")
