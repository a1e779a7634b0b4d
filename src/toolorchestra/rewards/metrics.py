"""The metric vector of a trajectory, and its normalisation within a group."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from toolorchestra.errors import UserError
from toolorchestra.rewards.numbers import FloatArray, is_constant
from toolorchestra.trajectory import Trajectory

FIXED_COLUMNS = ("outcome", "compute", "latency")


def metric_columns(tool_names: Sequence[str]) -> tuple[str, ...]:
    """The names of the metric vector's components: the tools as given, then outcome, compute, latency.

    Raises:
        UserError: A tool is named twice.
    """
    names = tuple(tool_names)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"the tool {twice!r} is named twice; every tool has one column in the metric vector")
    return (*names, *FIXED_COLUMNS)


def metric_matrix(trajectories: Sequence[Trajectory], tool_names: Sequence[str]) -> FloatArray:
    """The metric vectors ``[calls of tool 1 … n, outcome, -dollars, -seconds]``, one row a trajectory.

    Source: arXiv 2511.21689, section 3.2. Cost and latency are negated *before* normalising, so that the cheapest of
    a group gets 1 and the dearest 0 (the published code mixes signs and pays for dearness).

    Raises:
        UserError: The cost of a trajectory is unknown, or its latency is no finite number. Neither may pass as 0.
    """
    width = len(metric_columns(tool_names))
    rows = [_metrics(trajectory, tool_names) for trajectory in trajectories]
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def normalise(matrix: FloatArray) -> FloatArray:
    """Min-max each column over the rows of one group to [0, 1]; a column that is constant in the group becomes 0.

    Source: arXiv 2511.21689, section 3.2. Constant means equal up to relative float noise, so the result does not
    depend on the unit of money or time. Where all rollouts are right the outcome is constant too: only cost, latency
    and the tools then tell them apart. Three right answers at $0.10, $0.30, $0.50 have compute 1, 0.5, 0.
    """
    result = np.zeros_like(matrix, dtype=np.float64)
    for index, column in enumerate(matrix.T):
        if not is_constant(column):
            low, high = column.min(), column.max()
            result[:, index] = (column - low) / (high - low)
    return result


def _metrics(trajectory: Trajectory, tool_names: Sequence[str]) -> list[float]:
    where = f"task {trajectory.task_id!r}, sample {trajectory.sample}"
    cost, latency_s, calls = trajectory.cost_usd, trajectory.latency_s, trajectory.calls
    if cost is None:
        sources = sorted({charge.source for charge in trajectory.charges if charge.usd is None})
        raise UserError(
            f"{where}: the cost is unknown because {', '.join(sources)} has no price; "
            "add the price (0 where it is free) before training or comparing on cost"
        )
    if not cost.is_finite() or not math.isfinite(latency_s):
        raise UserError(f"{where}: the cost ({cost} USD) or latency ({latency_s} s) is not a finite number")
    counts = [float(calls[name]) for name in tool_names]
    return [*counts, float(trajectory.solved is True), -float(cost), -latency_s]
