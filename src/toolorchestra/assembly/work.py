"""What the commands do with a configuration: evaluate, train, answer. Each checks everything before it begins."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolorchestra.assembly.build import Assembly, build
from toolorchestra.assembly.checks import examine, refuse
from toolorchestra.assembly.training import check_trainable, training_job
from toolorchestra.assembly.watching import Turn, WatchedEnvironment
from toolorchestra.config import Settings, load_settings
from toolorchestra.errors import UserError
from toolorchestra.evaluation import Evaluation, Progress, evaluate
from toolorchestra.evaluation.run import FOCUS
from toolorchestra.rollout import run_episode
from toolorchestra.runs import RunFolder, RunRecord
from toolorchestra.tasks import Task, read_tasks, tasks_hash
from toolorchestra.trajectory import Trajectory

if TYPE_CHECKING:
    from toolorchestra.training import TrainingProgress

_NO_RESULT = ("concurrency", "training", "tasks")
"""Settings that an evaluation does not depend on: they may change before it goes on."""


@dataclass(frozen=True, slots=True)
class EvaluationJob:
    """An evaluation as it was asked for, read and checked as far as files go.

    Attributes:
        config: The settings file.
        settings: What it says.
        tasks_file: The task file.
        tasks: What it holds.
        samples: Rollouts of a task.
        baselines: ``all``, ``none`` or names with commas between them.
        concurrency: Episodes at once.
        seed: Of the random baseline, a local model's sampling and the bootstrap.
    """

    config: Path
    settings: Settings
    tasks_file: Path
    tasks: tuple[Task, ...]
    samples: int
    baselines: str
    concurrency: int
    seed: int

    @property
    def name(self) -> str:
        """Made of the files' names: for the run's folder and the report's title."""
        return f"{self.config.stem}-{self.tasks_file.stem}"

    def command(self, folder: Path) -> str:
        """The command that makes this run."""
        words = ["toolorchestra", "evaluate", str(self.config), str(self.tasks_file), "--samples", str(self.samples)]
        words += ["--baselines", self.baselines, "--seed", str(self.seed), "--out", str(folder)]
        return shlex.join(words)


def load_job(
    config: Path,
    tasks: Path | None,
    *,
    samples: int = 1,
    baselines: str = "all",
    concurrency: int | None = None,
    seed: int = 0,
) -> EvaluationJob:
    """Read an evaluation's files.

    Raises:
        UserError: A file is missing or wrong, or no task file is named.
    """
    settings = load_settings(config)
    file = tasks or settings.tasks.test
    if file is None:
        raise UserError(f"no task file is named: give one after {config}, or set tasks.test in it")
    return EvaluationJob(
        config, settings, file, read_tasks(file), samples, baselines, concurrency or settings.concurrency, seed
    )


async def evaluate_config(
    job: EvaluationJob, folder: Path, on_progress: Callable[[Progress], None] | None = None
) -> None:
    """Check everything, then run the orchestrator and the baselines into a folder; an earlier run in it goes on.

    Raises:
        UserError: Something must be set right, or the folder holds a run with other settings.
        UnreachableError: Something does not answer.
    """
    refuse(await examine(job.settings))
    async with build(job.settings, tasks=job.tasks, seed=job.seed) as assembly:
        tasks = assembly.prepare(job.tasks)
        rules = assembly.baselines(job.baselines)
        focus = assembly.policy_factory()
        evaluation = Evaluation(
            tasks,
            [focus, *(rule for rule in rules if rule.name != focus.name)],
            assembly.make_environment,
            assembly.limits,
            job.samples,
            job.concurrency,
        )
        record = _record(assembly, tasks, {"evaluation": job.seed}, focus=focus.name, without=_NO_RESULT)
        await evaluate(RunFolder(folder), evaluation, record, on_progress)


def train_config(config: Path, folder: Path, on_progress: Callable[[TrainingProgress], None] | None = None) -> Path:
    """Check everything, then train; an earlier training in the folder goes on. Imports torch.

    Returns:
        The folder of the trained model.

    Raises:
        UserError: Something must be set right.
        UnreachableError: Something does not answer.
    """
    settings = load_settings(config)
    check_trainable(settings)
    refuse(asyncio.run(examine(settings)))
    raw = () if settings.tasks.train is None else read_tasks(settings.tasks.train)
    assembly = build(settings, tasks=raw, seed=settings.training.seed)
    try:
        tasks = assembly.prepare(raw)
        record = _record(assembly, tasks, {"training": settings.training.seed}, without=("concurrency", "tasks"))
        with RunFolder(folder).writing(record):
            job = training_job(assembly, tasks, folder)
            from toolorchestra.training import train

            return train(job, on_progress)
    finally:
        assembly.close()


@dataclass(frozen=True, slots=True)
class Answered:
    """A question's episode.

    Attributes:
        trajectory: All of it.
        turns: Turn by turn.
    """

    trajectory: Trajectory
    turns: Sequence[Turn]

    @property
    def answer(self) -> str | None:
        """The answer, if there is one."""
        return self.trajectory.answer

    def to_json(self) -> dict[str, Any]:
        """A plain object; dollars as strings, exactly."""
        trajectory = self.trajectory
        return {
            "answer": self.answer,
            "status": trajectory.status,
            "limit": trajectory.limit,
            "error": trajectory.error,
            "usd": _text(trajectory.cost_usd),
            "seconds": trajectory.latency_s,
            "calls": dict(trajectory.calls),
            "turns": [_turn_to_json(turn) for turn in self.turns],
        }


async def answer_question(
    config: Path,
    question: str,
    *,
    words: str | None = None,
    seed: int = 0,
    on_turn: Callable[[Turn], None] | None = None,
) -> Answered:
    """Check everything, then answer one question.

    Args:
        config: The settings file.
        question: What is asked.
        words: A wish in words, instead of the configuration's.
        seed: Of a local model's sampling and the random rule.
        on_turn: Told of every turn as it happens.

    Raises:
        UserError: Something must be set right.
        UnreachableError: Something does not answer.
    """
    settings = load_settings(config)
    refuse(await examine(settings))
    turns: list[Turn] = []

    def tell(turn: Turn) -> None:
        turns.append(turn)
        if on_turn is not None:
            on_turn(turn)

    async with build(settings, tasks=_known_tasks(settings), seed=seed) as assembly:
        task = assembly.question(question, words)
        factory = assembly.policy_factory()
        trajectory = await run_episode(
            factory.episode(task, 0),
            WatchedEnvironment(assembly.make_environment(task, 0), tell),
            task=task,
            sample=0,
            group=task.id,
            policy_name=factory.name,
            limits=assembly.limits,
        )
    return Answered(trajectory, turns)


def _record(
    assembly: Assembly, tasks: Sequence[Task], seeds: Mapping[str, int], *, without: Sequence[str], focus: str = ""
) -> RunRecord:
    """What a run is made with, ``without`` the settings that may change before it goes on."""
    settings = {key: value for key, value in assembly.settings.dump().items() if key not in without}
    if focus:
        settings[FOCUS] = focus
    return RunRecord(settings, seeds=seeds, prices=assembly.prices.to_json(), dataset=tasks_hash(tasks))


def _known_tasks(settings: Settings) -> tuple[Task, ...]:
    """The tasks that the configuration names: simulated models know their answers."""
    files = (settings.tasks.train, settings.tasks.test)
    return tuple(task for file in files if file is not None for task in read_tasks(file))


def _turn_to_json(turn: Turn) -> dict[str, Any]:
    return {
        "turn": turn.number,
        "text": turn.action.message.content,
        "calls": [
            {
                "tool": record.call.name,
                "arguments": dict(record.call.arguments),
                "result": record.result.content,
                "error": record.result.error,
                "seconds": record.latency_s,
            }
            for record in turn.calls
        ],
        "submitted": None if turn.submitted is None else dict(turn.submitted.arguments),
        "usd": _text(turn.usd),
        "seconds": turn.seconds,
    }


def _text(usd: Decimal | None) -> str | None:
    return None if usd is None else f"{usd:f}"
