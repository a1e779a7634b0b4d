"""From normalised metrics to one reward a rollout: the product with the preference, gated by success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolorchestra.errors import UserError
from toolorchestra.rewards.numbers import BoolArray, FloatArray, float_array


def reward_parts(normalised: FloatArray, preference: npt.ArrayLike, solved: npt.ArrayLike) -> FloatArray:
    """What each component adds to each rollout's reward; the rows sum to the rewards.

    Raises:
        ValueError: The shapes do not fit.
    """
    weights, success = float_array(preference), np.asarray(solved, dtype=bool)
    if normalised.ndim != 2 or weights.shape != normalised.shape[1:] or success.shape != normalised.shape[:1]:
        raise ValueError(
            f"metrics {normalised.shape}, preference {weights.shape} and solved {success.shape} do not fit"
        )
    return np.where(success[:, np.newaxis], normalised * weights, 0.0)


def rewards(normalised: FloatArray, preference: npt.ArrayLike, solved: npt.ArrayLike) -> FloatArray:
    """Normalised metrics · preference for a rollout that solved its task, else exactly 0: in [0, sum of preference].

    Source: arXiv 2511.21689, section 3.2. The gate comes first: in a group where everybody failed, being cheap or
    quick must not look like merit.

    Args:
        normalised: One row a rollout, from :func:`~toolorchestra.rewards.normalise`.
        preference: One weight in [0, 1] a column, from ``Preference.vector``.
        solved: One truth value a rollout.

    Raises:
        ValueError: The shapes do not fit.
    """
    # A row-wise sum adds every row in the same order, which a BLAS product does not promise: permuted rollouts must
    # have the very same rewards.
    parts = np.ascontiguousarray(reward_parts(normalised, preference, solved))
    total: FloatArray = parts.sum(axis=1)
    return float_array(np.minimum(total, float_array(preference).sum()))


@dataclass(frozen=True, slots=True, eq=False)
class CombinedRewards:
    """Rewards from several judges, some of whom abstained.

    Attributes:
        values: The weighted sum over those who spoke; NaN where nobody did (never 0: nobody said it was wrong).
        usable: Where somebody spoke. Only these rows may vote, be trained on, or enter a mean.
    """

    values: FloatArray
    usable: BoolArray


def combine_columns(
    columns: Mapping[str, Sequence[float | None]],
    weights: Mapping[str, float] | None = None,
) -> CombinedRewards:
    """Add up vector rewards, one column a judge, where ``None`` (or NaN) means that the judge abstained.

    Args:
        columns: A value a rollout from every judge.
        weights: A weight for every column; ``None`` for 1 each.

    Raises:
        UserError: Columns and weights do not name the same judges.
        ValueError: There is no column, or their lengths differ.
    """
    if weights is not None and set(weights) != set(columns):
        odd = min(set(weights) ^ set(columns))
        raise UserError(f"reward weights: {odd!r} must have both a column and a weight; it has only one of them")
    if not columns or len({len(column) for column in columns.values()}) != 1:
        raise ValueError("reward columns must be at least one, of one length")
    matrix = float_array([list(columns[name]) for name in columns]).T
    weight = float_array([1.0 if weights is None else weights[name] for name in columns])
    spoke = ~np.isnan(matrix)
    usable: BoolArray = np.any(spoke, axis=1)
    total = (np.where(spoke, matrix, 0.0) * weight).sum(axis=1)
    return CombinedRewards(np.where(usable, total, np.nan), usable)
