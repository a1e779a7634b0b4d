"""Many episodes at once, each at its own pace: no episode waits for another one's turn.

This is the one loop that training, evaluation and serving run. What the infrastructure lost comes back as *missing*,
never as a zero, and what it cost stays on its record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import length_hint
from typing import TYPE_CHECKING

from toolorchestra.episode import blank_trajectory, lost, run_episode
from toolorchestra.errors import UserError
from toolorchestra.limits import Limits
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Trajectory

if TYPE_CHECKING:
    from toolorchestra.environments.base import Environment
    from toolorchestra.policies.base import PolicyFactory

__all__ = ["EpisodeRequest", "Limits", "group_requests", "run_episode", "run_episodes"]


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
    """One episode to run.

    Attributes:
        task: What is asked.
        sample: The rollout's number; recorded answers and random streams differ by it.
        group: Id of the rollouts that are compared with each other.
    """

    task: Task
    sample: int
    group: str


def group_requests(
    tasks: Iterable[Task], samples: int, *, label: str = "", first_sample: int = 0
) -> tuple[EpisodeRequest, ...]:
    """``samples`` rollouts of every task, task by task, those of one task in one group.

    Args:
        tasks: What is asked.
        samples: Rollouts a task.
        label: Put before the task's id in the group's id, so that a later visit of a task is another group.
        first_sample: Number of the first rollout of every task.

    Raises:
        UserError: ``samples`` is below 1.
    """
    if samples < 1:
        raise UserError(f"samples is {samples}: every task needs at least one rollout")
    numbers = range(first_sample, first_sample + samples)
    return tuple(
        EpisodeRequest(task, sample, f"{label}/{task.id}" if label else task.id) for task in tasks for sample in numbers
    )


async def run_episodes(
    requests: Iterable[EpisodeRequest],
    *,
    factory: PolicyFactory,
    make_environment: Callable[[Task, int], Environment],
    limits: Limits,
    concurrency: int,
    on_done: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Run episodes, at most ``concurrency`` at once.

    Args:
        requests: What to run; read one by one, as there is room.
        factory: Makes each episode's policy.
        make_environment: Makes each episode's environment from the task and the sample's number.
        limits: Of each episode.
        concurrency: How many run at once.
        on_done: Called with each trajectory as it ends, to store it and to show progress. If it raises, the run stops.

    Returns:
        The trajectories, in the order of the requests.

    Raises:
        UserError: The user must act. The other episodes are cancelled first. When the run itself is cancelled, they
            are too; ``on_done`` only ever sees whole trajectories.
    """
    if concurrency < 1:
        raise UserError(f"concurrency is {concurrency}: at least one episode must run at a time")
    queue = enumerate(requests)
    finished: dict[int, Trajectory] = {}

    async def work() -> None:
        for index, request in queue:
            finished[index] = await _run_request(request, factory, make_environment, limits)
            if on_done is not None:
                on_done(finished[index])

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(concurrency, length_hint(requests, concurrency))):
                workers.create_task(work())
    except BaseExceptionGroup as failures:
        raise _most_telling(failures) from None
    return [finished[index] for index in range(len(finished))]


async def _run_request(
    request: EpisodeRequest,
    factory: PolicyFactory,
    make_environment: Callable[[Task, int], Environment],
    limits: Limits,
) -> Trajectory:
    task, sample, group = request.task, request.sample, request.group
    try:
        environment = make_environment(task, sample)
        policy = factory.episode(task, sample)
    except UserError:
        raise
    except Exception as error:
        return lost(blank_trajectory(task, sample, group, factory.name), error)
    return await run_episode(
        policy, environment, task=task, sample=sample, group=group, policy_name=factory.name, limits=limits
    )


def _most_telling(failures: BaseExceptionGroup) -> BaseException:
    """The first user's error of a group, else its first error. Workers raise no groups of their own."""
    users = failures.subgroup(UserError)
    return (failures if users is None else users).exceptions[0]
