"""Traces for the warm start: of a scripted explorer's rollouts, the best that solved each task."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from toolorchestra.errors import UserError
from toolorchestra.rewards import RewardSettings, score_group
from toolorchestra.tasks import Task
from toolorchestra.training.collect import tool_names
from toolorchestra.trajectory import Trajectory

Worth = dict[int, float]
"""What each rollout of a task is worth, by the rollout's number."""


def best_verified(trajectories: Sequence[Trajectory], tasks: Mapping[str, Task], *, per_task: int) -> list[Trajectory]:
    """For every task, its shortest solving rollouts; of equally short ones those with the highest reward.

    Short ones are kept because an explorer wanders: a call that did not help is no example. The reward is that of the
    task's own preference among all of its rollouts.

    Args:
        trajectories: Rollouts of an explorer. Missing, unsolved and malformed ones are left out.
        tasks: By id.
        per_task: How many to keep of a task, each of which did something else.
    """
    by_task: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        by_task.setdefault(trajectory.task_id, []).append(trajectory)
    kept: list[Trajectory] = []
    for task_id, members in by_task.items():
        worth = _worth(members, tasks[task_id])
        good = [each for each in members if each.solved and each.status == "done" and not each.malformed_calls]
        good.sort(key=lambda each: (len(each.steps), -worth[each.sample], each.sample))
        ways: dict[str, Trajectory] = {}
        for trajectory in good:
            ways.setdefault(_what_it_did(trajectory), trajectory)
        kept.extend(list(ways.values())[:per_task])
    return kept


def _worth(members: Sequence[Trajectory], task: Task) -> Worth:
    try:
        score = score_group(members, task.preference, tool_names(members, task.preference), RewardSettings())
    except UserError:  # a cost is unknown, so rewards are too: the length alone decides
        return dict.fromkeys((each.sample for each in members), 0.0)
    rewards = np.nan_to_num(score.rewards).tolist()
    return {each.sample: reward for each, reward in zip(members, rewards, strict=True)}


def _what_it_did(trajectory: Trajectory) -> str:
    calls = [(call.name, dict(call.arguments)) for step in trajectory.steps for call in step.action.message.tool_calls]
    return json.dumps(calls, sort_keys=True)
