"""Estimates with 95% intervals: means, proportions, paired differences and ratios.

Several samples of one task are not independent, so everything is resampled (or counted) by task: whoever answers the
same question eight times has not seen eight questions.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
RESAMPLES = 2000

Values = Mapping[str, Sequence[float]]
"""A system's values, by task."""

_Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and how sure it is.

    Attributes:
        value: The estimate.
        low: Lower end of the 95% interval; ``None`` where there is too little data for one.
        high: Upper end of the 95% interval; ``None`` where there is too little data for one.
        n: How many independent tasks it rests on.
    """

    value: float
    low: float | None
    high: float | None
    n: int


def mean(values: Values, *, seed: int = 0) -> Estimate | None:
    """The mean over all values with a bootstrap interval; ``None`` without any.

    The interval is BCa (Efron 1987), clustered by task. Tasks that do not differ at all give an interval of no width:
    no variation was seen.
    """
    used = [list(map(float, task)) for task in values.values() if len(task)]
    if not used:
        return None
    sums, counts = np.array([math.fsum(task) for task in used]), np.array([len(task) for task in used], dtype=float)
    return _ratio_of_sums(sums, counts, seed=seed)


def proportion(values: Mapping[str, Sequence[bool]], *, seed: int = 0) -> Estimate | None:
    """The share of true values with an interval; ``None`` without any.

    One sample a task: Wilson's interval (1927), which keeps a width at 0% and 100%. Several: the clustered bootstrap,
    and Wilson's over the tasks where all tasks agree, for then there is nothing to resample.
    """
    used = {task: [float(value) for value in samples] for task, samples in values.items() if len(samples)}
    estimate = mean(used, seed=seed)
    if estimate is None:
        return None
    single = all(len(samples) == 1 for samples in used.values())
    if single or estimate.low is None or estimate.low == estimate.high:
        low, high = wilson(estimate.value * estimate.n, estimate.n)
        return Estimate(estimate.value, low, high, estimate.n)
    return estimate


def wilson(successes: float, n: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's score interval of a proportion (Wilson 1927; Brown, Cai and DasGupta 2001).

    Raises:
        ValueError: There are no trials, or more successes than trials.
    """
    if n < 1 or not 0.0 <= successes <= n * (1.0 + 1e-12):
        raise ValueError(f"{successes} successes of {n} trials make no proportion")
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    share = min(successes / n, 1.0)
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At 0% and 100% the end is the estimate itself, which rounding may miss.
    return max(0.0, min(centre - half, share)), min(1.0, max(centre + half, share))


def difference(values: Values, reference: Values, *, seed: int = 0) -> Estimate | None:
    """The mean difference to a reference over the tasks that both have, paired by task; ``None`` without common tasks.

    Pairing takes out what makes tasks differ in difficulty: the interval is far narrower than that of two means.
    """
    common = _common(values, reference)
    differences = {
        task: [math.fsum(values[task]) / len(values[task]) - math.fsum(reference[task]) / len(reference[task])]
        for task in common
    }
    return mean(differences, seed=seed)


def ratio(values: Values, reference: Values, *, seed: int = 0) -> Estimate | None:
    """The ratio of two means over the tasks that both have, paired by task; ``None`` where the reference's is 0."""
    common = _common(values, reference)
    ours = np.array([math.fsum(values[task]) / len(values[task]) for task in common])
    theirs = np.array([math.fsum(reference[task]) / len(reference[task]) for task in common])
    if not common or theirs.sum() == 0.0:
        return None
    return _ratio_of_sums(ours, theirs, seed=seed)


def share(parts: Values, wholes: Values, *, seed: int = 0) -> Estimate | None:
    """A sum as a share of another over the same tasks (calls of one tool of all calls).

    Tasks whose whole is 0 have no share and do not count; ``None`` where that leaves none.
    """
    common = [task for task in _common(parts, wholes) if math.fsum(wholes[task]) != 0.0]
    if not common:
        return None
    ours = np.array([math.fsum(parts[task]) for task in common])
    theirs = np.array([math.fsum(wholes[task]) for task in common])
    return _ratio_of_sums(ours, theirs, seed=seed)


def by_task(keys: Sequence[Hashable], values: Sequence[Any]) -> dict[Any, list[Any]]:
    """Gather values by key, in order of first appearance."""
    gathered: dict[Any, list[Any]] = {}
    for key, value in zip(keys, values, strict=True):
        gathered.setdefault(key, []).append(value)
    return gathered


def _common(values: Values, reference: Values) -> list[str]:
    return [task for task in values if len(values[task]) and len(reference.get(task, ()))]


def _ratio_of_sums(numerators: _Array, denominators: _Array, *, seed: int) -> Estimate:
    """Sum over sum, with the pairs resampled."""
    value = float(math.fsum(numerators.tolist()) / math.fsum(denominators.tolist()))
    n = len(numerators)
    if n < 2:
        return Estimate(value, None, None, n)
    # Proportional pairs have one ratio however they are drawn; the bootstrap has nothing to work with.
    residuals = numerators - value * denominators
    if np.abs(residuals).max() <= 1e-9 * max(np.abs(numerators).max(), np.finfo(float).tiny):
        return Estimate(value, value, value, n)
    low, high = _bootstrap((numerators, denominators), _sum_over_sum, seed=seed)
    return Estimate(value, low, high, n)


def _sum_over_sum(numerators: _Array, denominators: _Array, axis: int = -1) -> Any:
    bottom = np.asarray(denominators.sum(axis=axis))
    # A resample may hold nothing but tasks that cost the reference nothing; it then says nothing.
    return np.divide(numerators.sum(axis=axis), bottom, out=np.full_like(bottom, np.nan), where=bottom != 0.0)


def _bootstrap(
    data: tuple[_Array, ...], statistic: Callable[..., Any], *, seed: int
) -> tuple[float, float] | tuple[None, None]:
    from scipy import stats  # takes a second to load, which a command that draws no interval need not wait for

    for method in ("BCa", "percentile"):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # With very little data BCa's acceleration is 0/0: the plain percentiles then have to do.
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)
            result = stats.bootstrap(
                data,
                statistic,
                paired=True,
                n_resamples=RESAMPLES,
                batch=max(1, 1_000_000 // len(data[0])),
                confidence_level=CONFIDENCE,
                method=method,
                rng=np.random.default_rng(seed),
            )
        low, high = map(float, result.confidence_interval)
        if math.isfinite(low) and math.isfinite(high):
            return low, high
    return None, None
