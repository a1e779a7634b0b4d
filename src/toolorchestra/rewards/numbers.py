"""What the reward's numbers share: array types, what counts as float noise, means that do not depend on order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

NOISE = 1e-6
"""Values whose spread is below this part of their size are equal. It is relative, so that the unit does not matter,
and above what float32 loses, so that a value that once was a float32 does not become a difference."""


def is_constant(values: FloatArray) -> bool:
    """Whether values are equal up to float noise.

    Comparing a computed spread with 0 instead would turn 1e-8 of noise into a full-size advantage.
    """
    if values.size < 2:
        return True
    spread = float(values.max() - values.min())
    return spread <= NOISE * float(np.abs(values).max())


def exact_mean(values: FloatArray) -> float:
    """The mean of at least one value, summed without rounding on the way: the same number in whatever order."""
    return math.fsum(values.tolist()) / values.size


def exact_std(values: FloatArray, *, ddof: int = 0) -> float:
    """The standard deviation in two passes; exactly 0 for values that are equal up to noise or too few for ``ddof``.

    The one-pass form, E[x²] - E[x]², cancels: for equal values it leaves a residue of either sign.
    """
    if values.size <= max(ddof, 1) or is_constant(values):
        return 0.0
    mean = exact_mean(values)
    return math.sqrt(math.fsum(((values - mean) ** 2).tolist()) / (values.size - ddof))


def masked_mean(values: npt.ArrayLike, mask: npt.ArrayLike) -> float | None:
    """The mean over the rows (or tokens) that a mask selects; ``None`` where it selects none.

    Loss, KL, ratio and drift metrics of a training step must all be taken over the one loss mask: a mean over all
    tokens counts tool output, which the policy did not choose. What is masked out may be anything, NaN included.

    Raises:
        ValueError: The shapes differ.
    """
    array, chosen = float_array(values), np.asarray(mask, dtype=bool)
    if array.shape != chosen.shape:
        raise ValueError(f"values have shape {array.shape}, their mask {chosen.shape}")
    return exact_mean(array[chosen]) if chosen.any() else None


def float_array(values: Any) -> FloatArray:
    """Any numbers as float64; ``None`` becomes NaN."""
    return np.asarray(values, dtype=np.float64)
