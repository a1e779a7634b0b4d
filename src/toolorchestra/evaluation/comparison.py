"""Rewards that can be compared between systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from toolorchestra.errors import UserError
from toolorchestra.preferences import Preference
from toolorchestra.rewards import RewardSettings, score_group
from toolorchestra.trajectory import Trajectory

_EVERY_VERDICT_COUNTS = RewardSettings(malformed_vote=True)
"""A malformed call keeps a rollout out of training, not out of an evaluation: what it solved, it solved."""


def pooled_rewards(
    systems: Mapping[str, Sequence[Trajectory]],
    preferences: Mapping[str, Preference],
    tool_names: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, dict[tuple[str, int], float | None]]:
    """The rewards of several systems, each task's rollouts of all systems scored as one group.

    A reward is relative to its group (arXiv 2511.21689, section 3.2: min-max over the rollouts of a task). Rewards of
    two systems that were normalised apart cannot be compared; these can, with each other and with nothing else: they
    change when a system is added.

    Args:
        systems: The trajectories, by system.
        preferences: The preference of every task, by task id.
        tool_names: The tools that have a column, by task id; those on offer at the start by default.

    Returns:
        By system, the reward by task id and sample; ``None`` for a rollout that is missing or has no verdict.

    Raises:
        UserError: A task has no preference, or a cost is unknown.
    """
    pools: dict[str, list[tuple[str, Trajectory]]] = {}
    for system, trajectories in systems.items():
        for trajectory in trajectories:
            pools.setdefault(trajectory.task_id, []).append((system, trajectory))
    rewards: dict[str, dict[tuple[str, int], float | None]] = {system: {} for system in systems}
    for task_id, pool in pools.items():
        if task_id not in preferences:
            raise UserError(f"task {task_id!r} has trajectories but no preference; give the task file that they are of")
        members = [replace(trajectory, group=task_id) for _, trajectory in pool]
        names = _tools(members) if tool_names is None else tool_names[task_id]
        score = score_group(members, preferences[task_id], names, _EVERY_VERDICT_COUNTS)
        for (system, trajectory), reward in zip(pool, score.rewards.tolist(), strict=True):
            rewards[system][task_id, trajectory.sample] = None if np.isnan(reward) else reward
    return rewards


def _tools(trajectories: Sequence[Trajectory]) -> list[str]:
    return sorted({spec.name for trajectory in trajectories for spec in trajectory.tools})
