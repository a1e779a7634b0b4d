"""How much better than its siblings each rollout of a group did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from toolorchestra.rewards.numbers import (
    BoolArray,
    FloatArray,
    exact_mean,
    exact_std,
    float_array,
)

Baseline = Literal["mean", "leave_one_out"]

_ROUNDING = 1e-9
"""A spread that is the floor but for rounding (0.4 and 0.6 have 0.09999999999999998) is not below the floor."""


@dataclass(frozen=True, slots=True, eq=False)
class AdvantageResult:
    """The advantages of one group.

    Attributes:
        advantages: One a rollout, always finite; exactly 0 for a rollout that is not usable and in a group not kept.
        kept: Whether the group's spread reaches the floor. A group that is not kept is not trained on.
        mean: Mean reward of the rollouts that voted; ``None`` where none did.
        std: Their standard deviation; ``None`` where none did.
    """

    advantages: FloatArray
    kept: bool
    mean: float | None
    std: float | None


def group_advantages(
    rewards: npt.ArrayLike,
    usable: npt.ArrayLike,
    *,
    voting: npt.ArrayLike | None = None,
    std_floor: float = 0.1,
    ddof: int = 0,
    clip: float | None = None,
    baseline: Baseline = "mean",
) -> AdvantageResult:
    """The advantage ``(R - mean) / std`` of every usable rollout of one group.

    Source: GRPO (arXiv 2402.03300, section 4.1); the floor on the spread: arXiv 2511.21689, section 3.2. A rollout
    that is not usable neither votes in the mean and the spread nor gets an advantage; its reward is not read and may
    be NaN. A single rollout, equal rewards and failures throughout give exactly 0. The spread is taken in two passes
    in float64, so neither noise nor cancellation is blown up, and the result does not depend on the order.

    Args:
        rewards: One a rollout.
        usable: Which rollouts are trained on.
        voting: Which rollouts count in the mean and the spread; the usable ones by default. The published code lets
            malformed rollouts vote, although it does not train on them.
        std_floor: A group whose spread is below it is dropped.
        ddof: 0 for the population's spread, 1 for the sample's.
        clip: Bound on the size of an advantage.
        baseline: ``leave_one_out`` measures a rollout against its siblings only (RLOO, arXiv 2402.14740), divided by
            the siblings' spread. Siblings that agree (a spread below the floor) do not divide: dividing by next to
            nothing would make advantages in the thousands.

    Raises:
        ValueError: The shapes differ, a usable rollout does not vote, or a vote is not finite.
    """
    values, trained = float_array(rewards), np.asarray(usable, dtype=bool)
    votes = trained if voting is None else np.asarray(voting, dtype=bool)
    if values.ndim != 1 or not values.shape == trained.shape == votes.shape:
        raise ValueError(f"rewards {values.shape}, usable {trained.shape} and voting {votes.shape} differ in shape")
    if (trained & ~votes).any():
        raise ValueError("a usable rollout must vote")
    if not np.isfinite(values[votes]).all():
        raise ValueError("the reward of a rollout that votes is not finite; exclude rollouts without one")
    nothing = np.zeros_like(values)
    if not votes.any():
        return AdvantageResult(nothing, False, None, None)
    mean, std = exact_mean(values[votes]), exact_std(values[votes], ddof=ddof)
    if std == 0.0 or std < std_floor * (1.0 - _ROUNDING):
        return AdvantageResult(nothing, False, mean, std)
    if baseline == "mean":
        scaled = np.divide(values - mean, std, out=nothing, where=trained)
    else:
        scaled = _against_siblings(values, trained, votes, std_floor=std_floor, ddof=ddof)
    return AdvantageResult(scaled if clip is None else np.clip(scaled, -clip, clip), True, mean, std)


def _against_siblings(
    values: FloatArray,
    trained: BoolArray,
    votes: BoolArray,
    *,
    std_floor: float,
    ddof: int,
) -> FloatArray:
    result = np.zeros_like(values)
    for row in np.flatnonzero(trained):
        siblings = votes.copy()
        siblings[row] = False
        spread = exact_std(values[siblings], ddof=ddof)
        distance = values[row] - exact_mean(values[siblings])
        divides = spread > 0.0 and spread >= std_floor * (1.0 - _ROUNDING)
        result[row] = distance / spread if divides else distance
    return result
