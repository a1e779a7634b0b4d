"""Systems over tasks into a folder: nothing lost, nothing run twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.environments.qa import QuestionEnvironment
from toolorchestra.errors import RetryableError, UserError
from toolorchestra.evaluation import Evaluation, Progress, evaluate, read_results, write_results
from toolorchestra.judges import ExactJudge
from toolorchestra.limits import Limits
from toolorchestra.messages import Message, ToolSpec
from toolorchestra.policies import OneModel, Policy, PolicyFactory, Scripted
from toolorchestra.runs import RunFolder, RunRecord
from toolorchestra.tasks import Task, tasks_hash
from toolorchestra.tools import CallContext
from toolorchestra.trajectory import Action, Charge, SampledTurn, ToolResult

TASKS = tuple(Task(f"t{number}", f"Number {number}?", f"n{number}", kind="count") for number in range(5))


@dataclass(frozen=True)
class Oracle:
    """A tool that knows, at a price; it may be unreachable for a while."""

    name: str
    usd: Decimal | None = Decimal("0.01")
    asked: Counter[str] = field(default_factory=Counter)
    broken: set[str] = field(default_factory=set)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "Knows.")

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        await asyncio.sleep(0)
        self.asked[context.question] += 1
        if context.question in self.broken:
            raise RetryableError("the line is dead")
        answer = "n" + context.question.removeprefix("Number ").removesuffix("?")
        return ToolResult(answer, (Charge(self.name, self.usd),), latency_s=1.0)


class World:
    """An evaluation over some tools, and where it is written."""

    def __init__(self, folder: Path, *tools: Oracle) -> None:
        self.folder = folder
        self.tools = tools or (Oracle("know"),)
        self.seen: list[Progress] = []

    def environment(self, task: Task, sample: int) -> QuestionEnvironment:
        return QuestionEnvironment(task, self.tools, ExactJudge(), sample=sample)

    async def run(self, *systems: PolicyFactory, tasks: Sequence[Task] = TASKS, **more: Any) -> None:
        evaluation = Evaluation(tasks, systems, self.environment, Limits(), **more)
        record = RunRecord({"focus": systems[0].name}, dataset=tasks_hash(tasks))
        await evaluate(RunFolder(self.folder), evaluation, record, self.seen.append)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "run")


async def test_progress_is_told_after_every_episode(world: World) -> None:
    await world.run(OneModel("know"), Scripted(["n1"]), samples=2)
    assert [seen.done for seen in world.seen if seen.system == "always know"] == [*range(11)]
    assert world.seen[-1] == Progress("scripted", 10, 10)


async def test_finished_episodes_are_not_run_again(world: World) -> None:
    await world.run(OneModel("know"))
    world.seen.clear()
    await world.run(OneModel("know"))
    assert set(world.tools[0].asked.values()) == {1}
    assert world.seen == [Progress("always know", 5, 5)]


async def test_a_cancelled_run_goes_on(world: World) -> None:
    """Stopped after the third episode, it runs the other two only."""
    evaluation = Evaluation(TASKS, [OneModel("know")], world.environment, Limits(), concurrency=1)
    record = RunRecord({"focus": "always know"}, dataset=tasks_hash(TASKS))

    def stop(progress: Progress) -> None:
        if progress.done == 3:
            running.cancel()

    running = asyncio.create_task(evaluate(RunFolder(world.folder), evaluation, record, stop))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(RunFolder(world.folder).trajectories()) == 3
    await world.run(OneModel("know"))
    assert set(world.tools[0].asked.values()) == {1}
    assert len(read_results(world.folder).trajectories["always know"]) == 5


async def test_what_was_lost_is_tried_again(world: World) -> None:
    world.tools[0].broken.add("Number 2?")
    await world.run(OneModel("know"))
    assert (world.seen[-1].done, world.seen[-1].missing) == (4, 1)
    results = read_results(world.folder)
    assert (results.missing, results.systems["always know"].rollouts) == (1, 4)
    world.tools[0].broken.clear()
    await world.run(OneModel("know"))
    assert read_results(world.folder).missing == 0
    assert world.tools[0].asked == {"Number 2?": 2} | {f"Number {n}?": 1 for n in (0, 1, 3, 4)}


async def test_other_tasks_need_another_folder(world: World) -> None:
    await world.run(OneModel("know"))
    with pytest.raises(UserError, match="dataset was"):
        await world.run(OneModel("know"), tasks=TASKS[:2])


async def test_two_systems_of_one_name_are_refused(world: World) -> None:
    with pytest.raises(UserError, match="two systems are called 'scripted'"):
        await world.run(Scripted(["a"]), Scripted(["b"]))
    assert not world.folder.exists()


async def test_a_users_error_stops_the_run_and_keeps_what_is_done(world: World) -> None:
    @dataclass(frozen=True)
    class Refusing:
        name: str = "refusing"

        def episode(self, task: Task, sample: int) -> Policy:
            return self

        async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
            raise UserError("the key is refused")

    with pytest.raises(UserError, match="the key is refused"):
        await world.run(OneModel("know"), Refusing())
    assert len(RunFolder(world.folder).trajectories()) == 5


async def test_sampled_tokens_are_not_kept(world: World) -> None:
    turn = SampledTurn((1,), (2,), (-0.1,), (True,), (None,))
    spent = Charge("orchestrator", Decimal("0.5"))
    await world.run(Scripted([Action(Message("assistant", "n1"), (spent,), 0.1, turn)]))
    kept = RunFolder(world.folder).trajectories()[0]
    assert kept.steps[0].action.tokens is None
    assert (kept.answer, kept.cost_usd) == ("n1", Decimal("0.5"))


class TestResults:
    async def test_the_dearest_alone_is_the_reference(self, tmp_path: Path) -> None:
        world = World(tmp_path / "run", Oracle("cheap", Decimal("0.001")), Oracle("dear", Decimal("0.1")))
        await world.run(Scripted(["n1"]), OneModel("cheap"), OneModel("dear"))
        results = read_results(world.folder)
        assert (results.focus, results.reference) == ("scripted", "always dear")
        ratio = results.systems["always cheap"].cost_ratio
        assert ratio is not None
        assert ratio.value == pytest.approx(0.01)
        assert results.systems["always dear"].reward is not None

    async def test_an_unknown_cost_leaves_rewards_out(self, tmp_path: Path) -> None:
        world = World(tmp_path / "run", Oracle("know", None))
        await world.run(OneModel("know"))
        system = read_results(world.folder).systems["always know"]
        assert (system.cost_usd, system.reward, system.unknown_cost) == (None, None, 5)

    async def test_the_files_of_a_report(self, world: World) -> None:
        await world.run(Scripted(["n1"]), OneModel("know"))
        page = write_results(world.folder, read_results(world.folder), title="Mine", command="make it")
        summary = json.loads((world.folder / "summary.json").read_text(encoding="utf-8"))
        assert (summary["focus"], summary["reference"]) == ("scripted", "always know")
        assert summary["systems"]["scripted"]["accuracy"]["value"] == pytest.approx(0.2)
        text = page.read_text(encoding="utf-8")
        assert page == world.folder / "report.html"
        assert "Mine" in text
        assert "make it" in text

    async def test_results_need_no_task_file(self, world: World) -> None:
        await world.run(OneModel("know"))
        (world.folder / "tasks.jsonl").unlink()
        results = read_results(world.folder)
        write_results(world.folder, results, title="Mine")
        assert results.tasks == {}

    def test_a_training_log_alone_is_a_report_too(self, world: World) -> None:
        folder = RunFolder(world.folder)
        with folder.writing(RunRecord({})):
            folder.append_metrics({"step": 1, "reward": 0.5})
            folder.append_metrics({"step": 2, "reward": 0.6})
        results = read_results(world.folder)
        assert (len(results.learning), results.systems) == (2, {})
        assert "Reward" in write_results(world.folder, results, title="Training").read_text(encoding="utf-8")

    def test_no_run(self, world: World) -> None:
        with pytest.raises(UserError, match="no run is here"):
            read_results(world.folder)

    def test_an_empty_run(self, world: World) -> None:
        with RunFolder(world.folder).writing(RunRecord({})):
            pass
        with pytest.raises(UserError, match="has no episodes yet"):
            read_results(world.folder)
