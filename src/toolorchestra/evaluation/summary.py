"""What a system did on a set of tasks, in numbers with intervals. Everything here can be written as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from toolorchestra.errors import UserError
from toolorchestra.evaluation.statistics import Estimate, difference, mean, proportion, ratio, share
from toolorchestra.rewards import verdict
from toolorchestra.trajectory import Trajectory

Rewards = Mapping[tuple[str, int], float | None]
"""A system's rewards, by task id and sample; ``None`` where there is none."""


@dataclass(frozen=True, slots=True)
class SystemSummary:
    """One system on one set of tasks. Rollouts lost to infrastructure failures are in ``missing`` and nowhere else.

    Attributes:
        name: The system.
        tasks: Number of tasks with at least one rollout that is not missing.
        rollouts: Number of rollouts that are not missing.
        missing: Number of rollouts lost to infrastructure failures: neither right nor wrong.
        unjudged: Number of rollouts without a verdict: neither right nor wrong.
        accuracy: Share of right answers among those with a verdict.
        cost_usd: Mean dollars of a rollout; ``None`` as soon as one cost is unknown.
        unknown_cost: Number of rollouts whose cost is unknown.
        latency_s: Mean seconds of a rollout.
        reward: Mean reward, where rewards were given.
        accuracy_difference: Accuracy minus the reference's, paired by task.
        cost_ratio: Mean cost over the reference's, paired by task.
        turns: Mean number of turns.
        malformed: Number of rollouts with a malformed call.
        forced_answers: Number of rollouts whose last answer was demanded.
        limits: Number of rollouts that each limit ended.
        calls: Number of calls, by tool.
        kinds: The same by kind of task.
    """

    name: str
    tasks: int
    rollouts: int
    missing: int
    unjudged: int
    accuracy: Estimate | None
    cost_usd: Estimate | None
    unknown_cost: int
    latency_s: Estimate | None
    reward: Estimate | None
    accuracy_difference: Estimate | None
    cost_ratio: Estimate | None
    turns: float | None
    malformed: int
    forced_answers: int
    limits: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, KindSummary] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A plain object for files."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class KindSummary:
    """One system on one kind of task.

    Attributes:
        rollouts: Number of rollouts that are not missing.
        accuracy: Share of right answers among those with a verdict.
        calls: Number of calls, by tool.
    """

    rollouts: int
    accuracy: Estimate | None
    calls: Mapping[str, int]


def summarise(
    systems: Mapping[str, Sequence[Trajectory]],
    *,
    reference: str | None = None,
    rewards: Mapping[str, Rewards] | None = None,
    seed: int = 0,
) -> dict[str, SystemSummary]:
    """Sum up what every system did on one set of tasks.

    Args:
        systems: The trajectories, by system.
        reference: The system that cost and accuracy are set in relation to, such as the dearest model alone.
        rewards: The rewards, by system, where there are any: see :func:`~toolorchestra.evaluation.pooled_rewards`.
        seed: Of the bootstrap.

    Raises:
        UserError: There is no system called ``reference``, or a system has two trajectories of one task and sample.
    """
    if reference is not None and reference not in systems:
        raise UserError(f"the reference {reference!r} is not among the systems: {', '.join(systems)}")
    for name, trajectories in systems.items():
        _check_unique(name, trajectories)
    baseline = None if reference is None else systems[reference]
    return {
        name: _summary(name, trajectories, baseline, None if rewards is None else rewards.get(name), seed)
        for name, trajectories in systems.items()
    }


def call_share(trajectories: Sequence[Trajectory], tool: str, *, seed: int = 0) -> Estimate | None:
    """The share of calls that went to one tool, with its interval; ``None`` where no call was made."""
    present = _present(trajectories)
    return share(
        _by_task(present, lambda trajectory: float(trajectory.calls[tool])),
        _by_task(present, lambda trajectory: float(trajectory.calls.total())),
        seed=seed,
    )


def _summary(
    name: str,
    trajectories: Sequence[Trajectory],
    reference: Sequence[Trajectory] | None,
    rewards: Rewards | None,
    seed: int,
) -> SystemSummary:
    present = _present(trajectories)
    verdicts, costs = _by_task(present, verdict), _by_task(present, _cost)
    unknown = sum(trajectory.cost_usd is None for trajectory in present)
    known = None if unknown else costs
    return SystemSummary(
        name=name,
        tasks=len({trajectory.task_id for trajectory in present}),
        rollouts=len(present),
        missing=len(trajectories) - len(present),
        unjudged=sum(verdict(trajectory) is None for trajectory in present),
        accuracy=proportion(verdicts, seed=seed),
        cost_usd=None if known is None else mean(known, seed=seed),
        unknown_cost=unknown,
        latency_s=mean(_by_task(present, lambda trajectory: trajectory.latency_s), seed=seed),
        reward=None if rewards is None else mean(_by_task(present, _lookup(rewards)), seed=seed),
        accuracy_difference=None if reference is None else _accuracy_difference(verdicts, reference, seed),
        cost_ratio=None if reference is None or known is None else _cost_ratio(known, reference, seed),
        turns=math.fsum(len(trajectory.steps) for trajectory in present) / len(present) if present else None,
        malformed=sum(trajectory.malformed_calls > 0 for trajectory in present),
        forced_answers=sum(trajectory.forced_answer for trajectory in present),
        limits=dict(Counter(trajectory.limit for trajectory in present if trajectory.limit is not None)),
        calls=_calls(present),
        kinds={kind: _kind_summary(present, kind, seed) for kind in _kinds(present)},
    )


def _kind_summary(present: Sequence[Trajectory], kind: str, seed: int) -> KindSummary:
    chosen = [trajectory for trajectory in present if trajectory.kind == kind]
    return KindSummary(len(chosen), proportion(_by_task(chosen, verdict), seed=seed), _calls(chosen))


def _accuracy_difference(
    verdicts: Mapping[str, Sequence[float]], reference: Sequence[Trajectory], seed: int
) -> Estimate | None:
    return difference(verdicts, _by_task(_present(reference), verdict), seed=seed)


def _cost_ratio(costs: Mapping[str, Sequence[float]], reference: Sequence[Trajectory], seed: int) -> Estimate | None:
    present = _present(reference)
    if any(trajectory.cost_usd is None for trajectory in present):
        return None
    return ratio(costs, _by_task(present, _cost), seed=seed)


def _present(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    return [trajectory for trajectory in trajectories if trajectory.status != "missing"]


def _by_task(trajectories: Sequence[Trajectory], value: Callable[[Trajectory], Any]) -> dict[str, list[Any]]:
    """Values by task, without those that are ``None``; a task where all are has an empty list."""
    gathered: dict[str, list[Any]] = {}
    for trajectory in trajectories:
        found = value(trajectory)
        gathered.setdefault(trajectory.task_id, []).extend([] if found is None else [found])
    return gathered


def _cost(trajectory: Trajectory) -> float | None:
    return None if trajectory.cost_usd is None else float(trajectory.cost_usd)


def _lookup(rewards: Rewards) -> Callable[[Trajectory], float | None]:
    return lambda trajectory: rewards.get((trajectory.task_id, trajectory.sample))


def _calls(trajectories: Sequence[Trajectory]) -> dict[str, int]:
    return dict(sum((trajectory.calls for trajectory in trajectories), Counter[str]()))


def _kinds(trajectories: Sequence[Trajectory]) -> list[str]:
    return sorted({trajectory.kind for trajectory in trajectories if trajectory.kind})


def _check_unique(name: str, trajectories: Sequence[Trajectory]) -> None:
    counts = Counter((trajectory.task_id, trajectory.sample) for trajectory in trajectories)
    twice = next((key for key, count in counts.items() if count > 1), None)
    if twice is not None:
        raise UserError(f"{name}: task {twice[0]!r} has sample {twice[1]} twice; each rollout counts once")
