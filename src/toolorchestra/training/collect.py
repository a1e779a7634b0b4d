"""One step's rollouts: run them, score them in their groups, and turn them into training sequences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolorchestra.preferences import Preference
from toolorchestra.rewards import GroupScore, RewardSettings, by_group, score_group
from toolorchestra.tasks import Task
from toolorchestra.training.sequences import TrainingSequence, sequences_of
from toolorchestra.trajectory import Trajectory

Label = Callable[[Task, str], str]
"""Names a task's tool for the metrics; where tools change their names by task, the label is their role."""


def tool_as_is(task: Task, tool: str) -> str:
    """The default label: the tool's own name."""
    return tool


@dataclass(frozen=True, slots=True)
class StepBatch:
    """What one step learns from, and what it logs."""

    sequences: tuple[TrainingSequence, ...]
    metrics: Mapping[str, Any]


def pick_tasks(tasks: Sequence[Task], step: int, count: int, seed: int, *, run_length: int = 1) -> list[Task]:
    """The tasks of a step: pass after pass over all of them, each pass in its own order.

    It depends on nothing but its arguments, so that a resumed run sees the same tasks. A step in which one pass ends
    and the next begins has no task twice, as long as there are tasks enough: rollouts of one task in one step would be
    one group.

    Args:
        tasks: All tasks.
        step: The step's number, from 0.
        count: How many.
        seed: Of the orders.
        run_length: Tasks that stand next to each other and stay together, such as one question under two wishes.
    """
    begin, end = step * count, (step + 1) * count
    picked: list[Task] = []
    ordered: list[Task] = []
    for number in range(-(-end // len(tasks))):
        start = number * len(tasks)
        taken = ordered[len(tasks) - start % count :] if start % count else []
        ordered = _pass(tasks, number, seed, run_length, last=taken)
        picked.extend(ordered[max(0, begin - start) : max(0, end - start)])
    return picked


def _pass(tasks: Sequence[Task], number: int, seed: int, run_length: int, last: Sequence[Task]) -> list[Task]:
    """All tasks in the order of one pass; those that the same step has seen already come last."""
    runs = [tasks[start : start + run_length] for start in range(0, len(tasks), run_length)]
    seen = {task.id for task in last}
    order = [runs[each] for each in np.random.default_rng([seed, number]).permutation(len(runs))]
    order.sort(key=lambda run: any(task.id in seen for task in run))
    return [task for run in order for task in run]


def build_batch(
    trajectories: Sequence[Trajectory],
    tasks: Mapping[str, Task],
    settings: RewardSettings,
    label: Label = tool_as_is,
) -> StepBatch:
    """Score groups and make sequences.

    Args:
        trajectories: Whole groups.
        tasks: By id.
        settings: Of the rewards.
        label: Names tools in the metrics.
    """
    sequences: list[TrainingSequence] = []
    scores: list[tuple[Sequence[Trajectory], GroupScore]] = []
    for members in by_group(trajectories).values():
        task = tasks[members[0].task_id]
        score = score_group(members, task.preference, tool_names(members, task.preference), settings)
        scores.append((members, score))
        sequences.extend(_group_sequences(members, score))
    return StepBatch(tuple(sequences), step_metrics(scores, tasks, label))


def tool_names(members: Sequence[Trajectory], preference: Preference) -> tuple[str, ...]:
    """The tools of a group's metric vector: all that were on offer or called, and all that the preference names."""
    names = [spec.name for trajectory in members for spec in trajectory.tools]
    names += [name for trajectory in members for name in trajectory.calls]
    return tuple(dict.fromkeys([*names, *preference.tools]))


def _group_sequences(members: Sequence[Trajectory], score: GroupScore) -> list[TrainingSequence]:
    made: list[TrainingSequence] = []
    for row, trajectory in enumerate(members):
        if not any(step.action.tokens for step in trajectory.steps):
            continue  # lost before its first turn
        reward = float(score.rewards[row])
        made.extend(
            sequences_of(
                trajectory,
                advantage=float(score.advantages[row]),
                reward=None if np.isnan(reward) else reward,
                reward_parts=dict(zip(score.columns, np.nan_to_num(score.parts[row]).tolist(), strict=True)),
                trained=bool(score.kept and score.trained[row]),
            )
        )
    return made


def step_metrics(
    scores: Sequence[tuple[Sequence[Trajectory], GroupScore]], tasks: Mapping[str, Task], label: Label
) -> dict[str, Any]:
    """Reward and its parts, accuracy, dollars, seconds, calls by tool and kind, and what was kept and why not.

    Rollouts that are missing count as missing and in no mean.
    """
    trajectories = [trajectory for members, _ in scores for trajectory in members]
    present = [trajectory for trajectory in trajectories if trajectory.status != "missing"]
    costs = [float(trajectory.cost_usd) for trajectory in present if trajectory.cost_usd is not None]
    solved = [trajectory.solved for trajectory in present if trajectory.solved is not None]
    rewards = np.concatenate([score.rewards for _, score in scores]) if scores else np.zeros(0)
    left_out: Counter[str] = Counter()
    for _, score in scores:
        left_out.update({str(reason): count for reason, count in score.left_out.items()})
    return {
        "reward": _mean(rewards[~np.isnan(rewards)].tolist()),
        "reward_parts": _parts(scores, tasks, label),
        "accuracy": _mean([float(each) for each in solved]),
        "cost_usd": _mean(costs),
        "latency_s": _mean([trajectory.latency_s for trajectory in present]),
        "turns": _mean([float(len(trajectory.steps)) for trajectory in present]),
        "rollouts": len(trajectories),
        "missing": len(trajectories) - len(present),
        "groups": len(scores),
        "groups_kept": sum(score.kept for _, score in scores),
        "left_out": dict(left_out),
        "calls": _calls(present, tasks, label),
        "calls_per_rollout": _calls_per_rollout(present, tasks, label),
    }


def _parts(
    scores: Sequence[tuple[Sequence[Trajectory], GroupScore]], tasks: Mapping[str, Task], label: Label
) -> dict[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    count = 0
    for members, score in scores:
        voted = ~np.isnan(score.rewards)
        count += int(voted.sum())
        for column, value in zip(score.columns, score.parts[voted].sum(axis=0).tolist(), strict=True):
            known = column in ("outcome", "compute", "latency")
            sums[column if known else f"tool:{label(tasks[members[0].task_id], column)}"] += value
    return {name: value / max(1, count) for name, value in sums.items() if value or ":" not in name}


def _calls(trajectories: Sequence[Trajectory], tasks: Mapping[str, Task], label: Label) -> dict[str, dict[str, float]]:
    """Calls a rollout, by kind of task and tool."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    totals: Counter[str] = Counter()
    for trajectory in trajectories:
        totals[trajectory.kind] += 1
        for tool, number in trajectory.calls.items():
            counts[trajectory.kind][label(tasks[trajectory.task_id], tool)] += number
    return {
        kind: {tool: number / totals[kind] for tool, number in sorted(counter.items())}
        for kind, counter in sorted(counts.items())
    }


def _calls_per_rollout(trajectories: Sequence[Trajectory], tasks: Mapping[str, Task], label: Label) -> dict[str, float]:
    counter: Counter[str] = Counter()
    for trajectory in trajectories:
        for tool, number in trajectory.calls.items():
            counter[label(tasks[trajectory.task_id], tool)] += number
    return {tool: number / len(trajectories) for tool, number in sorted(counter.items())}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
