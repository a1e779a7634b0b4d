"""One group, from its trajectories to advantages: everything of this package in its order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from toolorchestra.errors import UserError
from toolorchestra.preferences import Preference
from toolorchestra.rewards.advantages import Baseline, group_advantages
from toolorchestra.rewards.filters import (
    UNSCORED,
    Reason,
    count_reasons,
    unusable_reasons,
)
from toolorchestra.rewards.metrics import metric_columns, metric_matrix, normalise
from toolorchestra.rewards.numbers import BoolArray, FloatArray
from toolorchestra.rewards.reward import reward_parts, rewards
from toolorchestra.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class RewardSettings:
    """How a group is scored. The published code is ``RewardSettings(ddof=1, clip=3.0, malformed_vote=True)``.

    Attributes:
        std_floor: Groups whose rewards spread less are not trained on.
        ddof: 0 for the population's standard deviation, 1 for the sample's.
        clip: Bound on the size of an advantage; ``None`` for none.
        baseline: ``mean`` of the group, or ``leave_one_out``.
        malformed_vote: Whether rollouts with a malformed call or without an answer, which are not trained on, still
            count in their group's normalisation and mean. They then lift every valid sibling.

    Raises:
        UserError: A value is out of its range.
    """

    std_floor: float = 0.1
    ddof: int = 0
    clip: float | None = None
    baseline: Baseline = "mean"
    malformed_vote: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.std_floor) and self.std_floor >= 0.0):
            raise UserError(f"rewards.std_floor is {self.std_floor!r}; use 0 or more (0 keeps all that differ)")
        if self.ddof not in (0, 1):
            raise UserError(f"rewards.ddof is {self.ddof!r}; use 0 (population) or 1 (sample)")
        if self.clip is not None and not (math.isfinite(self.clip) and self.clip > 0.0):
            raise UserError(f"rewards.clip is {self.clip!r}; use a number above 0, or leave it out")
        if self.baseline not in get_args(Baseline):
            raise UserError(f"rewards.baseline is {self.baseline!r}; use one of {', '.join(get_args(Baseline))}")


@dataclass(frozen=True, slots=True, eq=False)
class GroupScore:
    """What a group's rollouts are worth. Every array has one row a rollout, in the order in which they were given.

    Attributes:
        columns: Names of the components: the tools, then outcome, compute, latency.
        metrics: The metric vectors; NaN for a rollout that does not vote.
        normalised: The same within the group, in [0, 1]; NaN for a rollout that does not vote.
        parts: What each component adds to the reward; NaN for a rollout that does not vote.
        rewards: The rewards; NaN for a rollout that does not vote.
        advantages: Always finite; exactly 0 for a rollout that is not trained on.
        reasons: Why a rollout is not trained on; ``None`` for one that is.
        kept: Whether the group's rewards spread enough to train on.
        mean: Mean reward of those that voted; ``None`` where none did.
        std: Standard deviation of their rewards; ``None`` where none did.
    """

    columns: tuple[str, ...]
    metrics: FloatArray
    normalised: FloatArray
    parts: FloatArray
    rewards: FloatArray
    advantages: FloatArray
    reasons: tuple[Reason | None, ...]
    kept: bool
    mean: float | None
    std: float | None

    @property
    def trained(self) -> BoolArray:
        """Which rollouts are trained on."""
        return np.array([reason is None for reason in self.reasons], dtype=np.bool_)

    @property
    def left_out(self) -> Counter[Reason]:
        """How many rollouts are not trained on, by reason."""
        return count_reasons(self.reasons)


def score_group(
    trajectories: Sequence[Trajectory],
    preference: Preference,
    tool_names: Sequence[str],
    settings: RewardSettings = RewardSettings(),
) -> GroupScore:
    """Score the rollouts of one task against each other.

    What does not vote takes no part in anything: neither in the normalisation (a rollout that died after a second is
    not the quickest) nor in the mean.

    Args:
        trajectories: The group's rollouts, in any order.
        preference: The preference that they were given.
        tool_names: The tools that were on offer; each has a column.
        settings: How to score.

    Raises:
        UserError: The cost of a rollout that votes is unknown.
        ValueError: The trajectories belong to different groups.
    """
    groups = {trajectory.group for trajectory in trajectories}
    if len(groups) > 1:
        raise ValueError(f"rollouts of different groups cannot be compared: {', '.join(sorted(groups))}")
    reasons = unusable_reasons(trajectories)
    usable = np.array([reason is None for reason in reasons], dtype=np.bool_)
    scored = np.array([reason not in UNSCORED for reason in reasons], dtype=np.bool_)
    voting = scored if settings.malformed_vote else usable
    voters = [trajectory for trajectory, votes in zip(trajectories, voting, strict=True) if votes]

    metrics = metric_matrix(voters, tool_names)
    normalised = normalise(metrics)
    weights, solved = (
        preference.vector(tool_names),
        [trajectory.solved is True for trajectory in voters],
    )
    values = _scatter(rewards(normalised, weights, solved), voting)
    result = group_advantages(
        values,
        usable,
        voting=voting,
        std_floor=settings.std_floor,
        ddof=settings.ddof,
        clip=settings.clip,
        baseline=settings.baseline,
    )
    return GroupScore(
        columns=metric_columns(tool_names),
        metrics=_scatter(metrics, voting),
        normalised=_scatter(normalised, voting),
        parts=_scatter(reward_parts(normalised, weights, solved), voting),
        rewards=values,
        advantages=result.advantages,
        reasons=reasons if result.kept else tuple(reason or "low_spread" for reason in reasons),
        kept=result.kept,
        mean=result.mean,
        std=result.std,
    )


def by_group(trajectories: Iterable[Trajectory]) -> dict[str, tuple[Trajectory, ...]]:
    """Sort rollouts into their groups by the group's id, whatever order they arrive in."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(trajectory.group, []).append(trajectory)
    return {group: tuple(members) for group, members in groups.items()}


def _scatter(rows: FloatArray, where: BoolArray) -> FloatArray:
    """Rows of the chosen rollouts put back in place among all; NaN elsewhere."""
    result = np.full((where.size, *rows.shape[1:]), np.nan)
    result[where] = rows
    return result
