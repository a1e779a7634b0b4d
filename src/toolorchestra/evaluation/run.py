"""Run systems over tasks into a run's folder, and sum up what a folder holds. Killed, it goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolorchestra.errors import UserError
from toolorchestra.evaluation.comparison import pooled_rewards
from toolorchestra.evaluation.report import write_report
from toolorchestra.evaluation.report_data import Example, ReportData, Split
from toolorchestra.evaluation.summary import SystemSummary, summarise
from toolorchestra.files import to_json_text, write_atomic
from toolorchestra.limits import Limits
from toolorchestra.preferences import Preference
from toolorchestra.rollout import group_requests, run_episodes
from toolorchestra.runs import EpisodeKey, RunFolder, RunRecord
from toolorchestra.tasks import Task, read_tasks
from toolorchestra.trajectory import Trajectory, without_tokens

if TYPE_CHECKING:
    from toolorchestra.environments.base import Environment
    from toolorchestra.policies.base import PolicyFactory

FOCUS = "focus"
"""The key of a run's settings that names the system that the evaluation is about."""

_ALONE = "always "
_EXAMPLES = 12


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is to be run.

    Attributes:
        tasks: What is asked.
        systems: Who is compared.
        make_environment: Makes each episode's environment from the task and the sample's number.
        limits: Of each episode.
        samples: Rollouts of a task.
        concurrency: Episodes at once.
    """

    tasks: Sequence[Task]
    systems: Sequence[PolicyFactory]
    make_environment: Callable[[Task, int], Environment]
    limits: Limits
    samples: int = 1
    concurrency: int = 32


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a system's episodes are.

    Attributes:
        system: Its name.
        done: Episodes that need not be run again.
        total: Episodes in all.
        missing: Episodes of this run that were lost to the infrastructure.
    """

    system: str
    done: int
    total: int
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Results:
    """What a folder holds, summed up.

    Attributes:
        systems: The summary of every system, in the order in which they were run.
        focus: The system that the evaluation is about; ``""`` where none is.
        reference: The system that costs are set in relation to: the dearest tool alone. ``None`` where there is none.
        trajectories: By system.
        tasks: By id; empty where the folder does not hold them.
        learning: Lines of the training log, where there are any.
        settings: What ``run.json`` says.
    """

    systems: Mapping[str, SystemSummary]
    focus: str
    reference: str | None
    trajectories: Mapping[str, Sequence[Trajectory]]
    tasks: Mapping[str, Task]
    learning: Sequence[Mapping[str, Any]]
    settings: Mapping[str, Any]

    @property
    def missing(self) -> int:
        """Episodes that were lost to the infrastructure and are worth another try."""
        return sum(system.missing for system in self.systems.values())


async def evaluate(
    folder: RunFolder,
    evaluation: Evaluation,
    record: RunRecord,
    on_progress: Callable[[Progress], None] | None = None,
) -> None:
    """Run every episode that the folder does not hold yet, one system after the other.

    Every trajectory is on disk before the next progress is told. Stopped at any moment, the same call goes on.

    Args:
        folder: Where everything is written.
        evaluation: What to run.
        record: What the run is made with; a folder holds results of one record only.
        on_progress: Told after every episode.

    Raises:
        UserError: The user must act, or the folder holds a run with other settings.
    """
    _check_names(evaluation.systems)
    with folder.writing(record):
        _keep_tasks(folder.path, evaluation.tasks)
        done = folder.done()
        for system in evaluation.systems:
            await _run_system(folder, evaluation, system, done, on_progress or _tell_nobody)


def read_results(path: Path, *, seed: int = 0) -> Results:
    """Sum up what a run's folder holds.

    Args:
        path: The folder.
        seed: Of the bootstrap.

    Raises:
        UserError: There is no run, or it has neither trajectories nor a training log.
    """
    folder = RunFolder(path)
    settings = folder.record()
    systems: dict[str, list[Trajectory]] = {}
    for trajectory in folder.trajectories():
        systems.setdefault(trajectory.policy, []).append(trajectory)
    learning = [curve_row(row) for row in folder.metrics.read()]
    if not systems and not learning:
        raise UserError(f"{path}: the run has no episodes yet; start the command that made it again")
    tasks = {task.id: task for task in read_tasks(path / "tasks.jsonl")} if (path / "tasks.jsonl").is_file() else {}
    reference = _dearest_alone(systems)
    summaries = summarise(systems, reference=reference, rewards=_rewards(systems), seed=seed) if systems else {}
    focus = str(settings.get("settings", {}).get(FOCUS, ""))
    return Results(
        summaries, focus if focus in systems else "", reference, systems, tasks, learning, _shown_settings(settings)
    )


def write_results(path: Path, results: Results, *, title: str, command: str = "") -> Path:
    """Write ``summary.json`` and ``report.html`` into a run's folder; the path of the report."""
    summary = {
        "focus": results.focus,
        "reference": results.reference,
        "systems": {name: system.to_json() for name, system in results.systems.items()},
    }
    write_atomic(path / "summary.json", json.dumps(json.loads(to_json_text(summary)), indent=2) + "\n")
    split = Split("tasks", list(results.systems.values()))
    data = ReportData(
        title=title,
        focus=results.focus,
        reference=results.reference or "",
        splits=[split] if results.systems else [],
        learning=results.learning,
        examples=_examples(results),
        settings=results.settings,
        command=command,
    )
    return write_report(RunFolder(path).report_path, data)


def curve_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the training log as :class:`ReportData` wants it: calls a rollout by tool, over all kinds of task."""
    calls = {f"calls.{tool}": number for tool, number in (row.get("calls_per_rollout") or {}).items()}
    return {**row, "kept_groups": row.get("groups_kept"), **calls}


async def _run_system(
    folder: RunFolder,
    evaluation: Evaluation,
    system: PolicyFactory,
    done: set[EpisodeKey],
    on_progress: Callable[[Progress], None],
) -> None:
    requests = group_requests(evaluation.tasks, evaluation.samples)
    waiting = [one for one in requests if EpisodeKey(system.name, one.task.id, one.sample) not in done]
    finished, missing = len(requests) - len(waiting), 0
    on_progress(Progress(system.name, finished, len(requests)))

    def keep(trajectory: Trajectory) -> None:
        nonlocal finished, missing
        folder.append(without_tokens(trajectory))
        lost = trajectory.status == "missing"
        missing, finished = missing + lost, finished + (not lost)
        on_progress(Progress(system.name, finished, len(requests), missing))

    if waiting:
        await run_episodes(
            waiting,
            factory=system,
            make_environment=evaluation.make_environment,
            limits=evaluation.limits,
            concurrency=evaluation.concurrency,
            on_done=keep,
        )


def _check_names(systems: Sequence[PolicyFactory]) -> None:
    names = [system.name for system in systems]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"two systems are called {twice!r}: their episodes could not be told apart; rename one")


def _keep_tasks(folder: Path, tasks: Sequence[Task]) -> None:
    """A copy of the tasks, for whoever reads the run without their file; the record's hash says that it is the same."""
    lines = (json.dumps(task.to_json(), ensure_ascii=False) + "\n" for task in tasks)
    write_atomic(folder / "tasks.jsonl", "".join(lines))


def _rewards(systems: Mapping[str, Sequence[Trajectory]]) -> dict[str, dict[tuple[str, int], float | None]] | None:
    """Rewards by each task's preference; ``None`` where a cost is unknown: compute cannot be compared then."""
    everything = [trajectory for trajectories in systems.values() for trajectory in trajectories]
    if any(trajectory.cost_usd is None for trajectory in everything if trajectory.status != "missing"):
        return None
    preferences = {
        trajectory.task_id: Preference.from_json(trajectory.info.get("preference", {})) for trajectory in everything
    }
    return pooled_rewards(systems, preferences)


def _dearest_alone(systems: Mapping[str, Sequence[Trajectory]]) -> str | None:
    """The system that always calls one tool and spends most in doing so."""
    spent = {}
    for name, trajectories in systems.items():
        costs = [trajectory.cost_usd for trajectory in trajectories if trajectory.status != "missing"]
        known = [float(cost) for cost in costs if cost is not None]
        if name.startswith(_ALONE) and known and len(known) == len(costs):
            spent[name] = sum(known) / len(known)
    return max(spent, key=lambda name: spent[name], default=None)


def _examples(results: Results) -> list[Example]:
    """A few episodes of the system in question: the wrong ones first, since they tell most."""
    name = results.focus or next(iter(results.trajectories), "")
    present = [trajectory for trajectory in results.trajectories.get(name, ()) if trajectory.status != "missing"]
    ordered = sorted(present, key=lambda trajectory: trajectory.solved is True)
    chosen = [*ordered[: _EXAMPLES // 2], *reversed(ordered[_EXAMPLES // 2 :])][:_EXAMPLES]
    return [Example(trajectory, expected=_expected(results.tasks, trajectory)) for trajectory in chosen]


def _expected(tasks: Mapping[str, Task], trajectory: Trajectory) -> str:
    return tasks[trajectory.task_id].answer if trajectory.task_id in tasks else ""


def _shown_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "v"}


def _tell_nobody(progress: Progress) -> None:
    del progress
