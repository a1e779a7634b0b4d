"""Evaluating and answering by a configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from toolorchestra.assembly import Turn, answer_question, evaluate_config, load_job
from toolorchestra.errors import UserError
from toolorchestra.evaluation import read_results
from toolorchestra.runs import RunFolder
from toolorchestra.testing import MockChatServer, MockReply

Configure = Callable[..., Path]

CHAT = """\
orchestrator: {{model: m, base_url: "{url}", price: {{input: 1, output: 2}}}}
models: {{small: {{provider: simulated, price: {{input: 1, output: 1}}, skills: {{easy: 1}}, seconds: 2}}}}
tools: {{ask: {{kind: model, model: small}}}}
tasks: {{test: tasks.jsonl}}
limits: {{turns: 3}}
"""


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    rows = [{"id": f"t{n}", "question": f"What is number {n}?", "answer": f"n{n}", "kind": "easy"} for n in range(4)]
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


class TestEvaluating:
    async def test_a_run_is_not_made_twice(self, configure: Configure, tasks: Path, tmp_path: Path) -> None:
        job = load_job(configure(), tasks, samples=2)
        await evaluate_config(job, tmp_path / "run")
        written = (tmp_path / "run" / "trajectories.jsonl").read_bytes()
        await evaluate_config(job, tmp_path / "run")
        assert (tmp_path / "run" / "trajectories.jsonl").read_bytes() == written
        # The rule that orchestrates is a baseline too, and is run once.
        assert [*read_results(tmp_path / "run").systems] == [
            "cheapest first",
            "always ask_small",
            "always ask_large",
            "random",
            "agreement",
        ]

    async def test_more_samples_go_on_in_the_folder(self, configure: Configure, tasks: Path, tmp_path: Path) -> None:
        config = configure()
        for samples in (1, 3):
            await evaluate_config(load_job(config, tasks, samples=samples, baselines="none"), tmp_path / "run")
        assert len(RunFolder(tmp_path / "run").trajectories()) == 12

    async def test_the_bound_on_episodes_may_change(self, configure: Configure, tasks: Path, tmp_path: Path) -> None:
        text = configure().read_text(encoding="utf-8")
        for concurrency in (2, 3):
            config = configure(f"{text}concurrency: {concurrency}\n")
            await evaluate_config(load_job(config, tasks, baselines="none"), tmp_path / "run")
        assert len(RunFolder(tmp_path / "run").trajectories()) == 4

    async def test_other_settings_need_another_folder(self, configure: Configure, tasks: Path, tmp_path: Path) -> None:
        text = configure().read_text(encoding="utf-8")
        await evaluate_config(load_job(configure(text), tasks, baselines="none"), tmp_path / "run")
        changed = configure(text.replace("output: 8", "output: 9"))
        with pytest.raises(UserError, match=r"prices\.large\.output was \"8\", now \"9\""):
            await evaluate_config(load_job(changed, tasks, baselines="none"), tmp_path / "run")

    async def test_the_settings_name_the_tasks(self, configure: Configure, tasks: Path) -> None:
        config = configure(configure().read_text(encoding="utf-8") + "tasks: {test: tasks.jsonl}\n")
        assert load_job(config, None).tasks_file == tasks

    def test_no_task_file(self, configure: Configure) -> None:
        with pytest.raises(UserError, match="no task file is named"):
            load_job(configure(), None)

    async def test_an_unknown_baseline_is_refused_first(
        self, configure: Configure, tasks: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(UserError, match="there is no rule 'oracle'"):
            await evaluate_config(load_job(configure(), tasks, baselines="oracle"), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_the_command_makes_the_run_again(self, configure: Configure, tasks: Path) -> None:
        job = load_job(configure(), tasks, samples=2, baselines="random", seed=3)
        words = job.command(Path("runs/my run"))
        assert words.startswith("toolorchestra evaluate ")
        assert words.endswith("--samples 2 --baselines random --seed 3 --out 'runs/my run'")


class TestAnswering:
    async def test_turn_by_turn(self, configure: Configure, tasks: Path) -> None:
        script = [MockReply(tool_calls=[("ask", {})]), MockReply("It is n1.")]
        seen: list[Turn] = []
        async with MockChatServer(script) as server:
            config = configure(CHAT.format(url=server.base_url))
            answered = await answer_question(config, "What is number 1?", words="be quick", on_turn=seen.append)
        assert server.requests[0].json["messages"][-1]["content"] == "What is number 1?\nbe quick"
        assert answered.answer == "It is n1"  # simulations end with a full stop, which is taken off
        assert (answered.turns, [turn.done for turn in seen]) == (seen, [False, True])
        called = seen[0].calls[0]
        assert (called.call.name, called.result.content.startswith("n1"), called.latency_s) == ("ask", True, 2.0)
        assert seen[0].seconds >= 2.0
        # 10 prompt tokens at $1 and 5 generated ones at $2 a million, and the model that was asked
        assert seen[1].usd == Decimal("0.00002")
        told = answered.to_json()
        assert Decimal(told["usd"]) == sum(Decimal(turn["usd"]) for turn in told["turns"])
        assert told["calls"] == {"ask": 1}
        json.dumps(told)

    async def test_a_limit_stands_on_the_answer(self, configure: Configure, tasks: Path) -> None:
        script = [MockReply(tool_calls=[("ask", {})])] * 3
        async with MockChatServer(script) as server:
            answered = await answer_question(configure(CHAT.format(url=server.base_url)), "What is number 1?")
        told = answered.to_json()
        assert (told["answer"], told["status"], told["limit"], len(told["turns"])) == (None, "limit", "turns", 3)

    async def test_a_result_submitted_by_its_number(self, configure: Configure, tasks: Path) -> None:
        text = CHAT.replace("constrained", "").format(url="http://127.0.0.1:9/v1")
        text = text.replace(
            'model: m, base_url: "http://127.0.0.1:9/v1"', 'model: "rule:always:ask", constrained: true'
        )
        answered = await answer_question(configure(text), "What is number 2?")
        assert answered.turns[-1].submitted is not None
        assert answered.to_json()["turns"][-1]["submitted"] == {"result": "1"}
