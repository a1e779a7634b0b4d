"""Traces for the warm start: a scripted explorer's rollouts, of which the shortest that solved their task are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence

from toolorchestra.trajectory import Trajectory


def shortest_verified(trajectories: Sequence[Trajectory], *, per_task: int) -> list[Trajectory]:
    """For every task, its shortest solving rollouts that did different things; of equally short ones the cheapest.

    Short ones are kept because an explorer wanders: a call that did not help is no example.

    Args:
        trajectories: Rollouts of an explorer. Missing, unsolved and malformed ones are left out.
        per_task: How many to keep of a task.
    """
    kept: list[Trajectory] = []
    done: dict[str, set[str]] = {}
    for trajectory in sorted(trajectories, key=_length_and_cost):
        if not trajectory.solved or trajectory.status != "done" or trajectory.malformed_calls:
            continue
        ways = done.setdefault(trajectory.task_id, set())
        way = _what_it_did(trajectory)
        if way not in ways and len(ways) < per_task:
            ways.add(way)
            kept.append(trajectory)
    return sorted(kept, key=lambda each: (each.task_id, each.sample))


def _length_and_cost(trajectory: Trajectory) -> tuple[int, float]:
    usd = trajectory.cost_usd
    return len(trajectory.steps), float("inf") if usd is None else float(usd)


def _what_it_did(trajectory: Trajectory) -> str:
    calls = [(call.name, dict(call.arguments)) for step in trajectory.steps for call in step.action.message.tool_calls]
    return json.dumps(calls, sort_keys=True)
