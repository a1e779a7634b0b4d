import asyncio
import random
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import RetryableError, UserError
from toolorchestra.messages import Message, ToolCall
from toolorchestra.rollout import EpisodeRequest, Limits, group_requests, run_episodes
from toolorchestra.runs import RunFolder, RunRecord
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Action, Observation, Outcome

LIMITS = Limits(turns=50)


class World:
    """``turns`` tool turns that sleep for real, then an answer."""

    def __init__(self, task, sample, sleeps=()):
        self.task = task
        self.sleeps = list(sleeps)

    async def reset(self):
        return Observation((Message("user", self.task.question),))

    async def step(self, action):
        if not action.message.tool_calls:
            return Observation(done=True)
        await asyncio.sleep(self.sleeps.pop(0))
        return Observation((Message("tool", "ok", tool_call_id="c"),), latency_s=1.0)

    async def score(self, trajectory):
        return Outcome(solved=True, answer=f"{self.task.id}.{trajectory.sample}")


class Factory:
    """Calls a tool ``turns`` times and answers. ``fail`` may raise by task and sample."""

    name = "policy"

    def __init__(self, turns=0, fail=None):
        self.turns = turns
        self.fail = fail or (lambda task, sample: None)
        self.running = 0
        self.most = 0
        self.started = []
        self.closed = 0

    def episode(self, task, sample):
        self.started.append((task.id, sample))
        return Policy(self, task, sample)


class Policy:
    def __init__(self, factory, task, sample):
        self.factory, self.task, self.sample = factory, task, sample
        self.turn = 0
        factory.running += 1
        factory.most = max(factory.most, factory.running)

    async def act(self, history, tools):
        await asyncio.sleep(0)
        error = self.factory.fail(self.task, self.sample)
        if isinstance(error, Exception):
            raise error
        if error:
            await asyncio.sleep(error)
        self.turn += 1
        if self.turn <= self.factory.turns:
            return Action(Message("assistant", tool_calls=(ToolCall("c", "t"),)), latency_s=0.0)
        return Action(Message("assistant", "done"), latency_s=0.0)

    async def aclose(self):
        self.factory.running -= 1
        self.factory.closed += 1


def tasks(count):
    return [Task(f"t{number}", "q", "a") for number in range(count)]


def names(trajectories):
    return [(trajectory.task_id, trajectory.sample) for trajectory in trajectories]


async def run(requests, factory, *, concurrency=8, make_environment=World, on_done=None):
    return await run_episodes(
        requests,
        factory=factory,
        make_environment=make_environment,
        limits=LIMITS,
        concurrency=concurrency,
        on_done=on_done,
    )


def test_groups_hold_the_rollouts_of_one_task():
    requests = group_requests(tasks(2), 2, label="step3", first_sample=4)
    assert [(request.task.id, request.sample, request.group) for request in requests] == [
        ("t0", 4, "step3/t0"),
        ("t0", 5, "step3/t0"),
        ("t1", 4, "step3/t1"),
        ("t1", 5, "step3/t1"),
    ]
    assert group_requests(tasks(1), 1)[0].group == "t0"
    with pytest.raises(UserError, match="samples is 0"):
        group_requests(tasks(1), 0)


@given(count=st.integers(0, 12), concurrency=st.integers(1, 20), seed=st.integers(0, 99))
def test_results_come_in_the_order_of_the_requests_and_the_bound_holds(count, concurrency, seed):
    draw = random.Random(seed)
    delays = {number: draw.choice([0, 1e-4, 5e-4]) for number in range(count)}
    factory = Factory(fail=lambda task, sample: delays[sample])
    requests = [EpisodeRequest(Task("t", "q", "a"), number, "g") for number in range(count)]
    seen = []
    results = asyncio.run(run(iter(requests), factory, concurrency=concurrency, on_done=seen.append))
    assert [result.sample for result in results] == list(range(count))
    assert sorted(result.sample for result in seen) == list(range(count))
    assert factory.most <= concurrency
    assert factory.closed == count


async def test_requests_are_read_only_as_there_is_room():
    read = []

    def endless():
        for number in range(10**9):
            read.append(number)
            yield EpisodeRequest(Task("t", "q", "a"), number, "g")

    task = asyncio.create_task(run(endless(), Factory(fail=lambda task, sample: 60.0), concurrency=3))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(read) == 3


async def test_no_episode_waits_for_another_ones_turn():
    """With a barrier a turn, the time would be the sum of each turn's slowest; without, the slowest episode's sum."""
    turns, count = 6, 24
    draw = random.Random(6)
    sleeps = [[min(0.1, 0.002 * draw.paretovariate(1.1)) for _ in range(turns)] for _ in range(count)]
    ideal = max(map(sum, sleeps))
    with_barrier = sum(max(sleep[turn] for sleep in sleeps) for turn in range(turns))
    assert with_barrier > 2.5 * ideal  # the test can tell the two apart
    began = time.perf_counter()
    results = await run(
        [EpisodeRequest(task, 0, "g") for task in tasks(count)],
        Factory(turns=turns),
        concurrency=count,
        make_environment=lambda task, sample: World(task, sample, sleeps[int(task.id[1:])]),
    )
    assert len(results) == count
    assert time.perf_counter() - began < 1.7 * ideal


async def test_one_lost_episode_is_missing_and_the_others_go_on():
    factory = Factory(fail=lambda task, sample: RetryableError("gone") if task.id == "t1" else None)
    results = await run(group_requests(tasks(3), 2), factory)
    assert [(result.status, result.solved) for result in results] == [
        ("done", True),
        ("done", True),
        ("missing", None),
        ("missing", None),
        ("done", True),
        ("done", True),
    ]


async def test_an_episode_that_cannot_be_made_is_missing():
    def make(task, sample):
        raise OSError("no disk")

    (result,) = await run(group_requests(tasks(1), 1), Factory(), make_environment=make)
    assert (result.status, result.policy, result.group) == ("missing", "policy", "t0")
    assert "no disk" in result.error


async def test_a_users_error_stops_the_run_after_the_others_are_cancelled():
    def fail(task, sample):
        return UserError("set the key") if task.id == "t3" else 60.0

    factory = Factory(fail=fail)
    done = []
    with pytest.raises(UserError, match="set the key"):
        await run(group_requests(tasks(20), 1), factory, concurrency=5, on_done=done.append)
    assert done == []
    assert factory.running == 0
    assert len(factory.started) == 5  # nothing new was begun


async def test_a_store_that_fails_stops_the_run():
    def full(trajectory):
        raise OSError("the disk is full")

    factory = Factory()
    with pytest.raises(OSError, match="the disk is full"):
        await run(group_requests(tasks(20), 1), factory, on_done=full)
    assert factory.running == 0


async def test_a_cancelled_run_leaves_whole_records_and_goes_on_later(tmp_path):
    record = RunRecord({"a": 1})
    slow = Factory(fail=lambda task, sample: 60.0 if int(task.id[1:]) >= 4 else None)
    requests = group_requests(tasks(8), 1)
    with RunFolder(tmp_path).writing(record) as folder:
        task = asyncio.create_task(run(requests, slow, concurrency=3, on_done=folder.append))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert slow.running == 0
    done = folder.done()
    assert {key.task_id for key in done} == {"t0", "t1", "t2", "t3"}
    todo = [request for request in requests if ("policy", request.task.id, request.sample) not in done]
    with RunFolder(tmp_path).writing(record) as folder:
        await run(todo, Factory(), on_done=folder.append)
        assert names(folder.trajectories()) == [(f"t{number}", 0) for number in range(8)]
        assert len(list(folder.attempts())) == 8


async def test_no_concurrency_is_refused():
    with pytest.raises(UserError, match="concurrency is 0"):
        await run([], Factory(), concurrency=0)


async def test_sixteen_times_as_many_episodes_take_sixteen_times_as_many_function_calls():
    """Growth by counting, which no other load disturbs; seconds are benchmarks/loop.py's."""

    async def function_calls(count):
        counted = 0

        def count_call(frame, event, argument):
            nonlocal counted
            counted += event == "call"

        sys.setprofile(count_call)
        try:
            await run(
                [EpisodeRequest(Task("t", "q", "a"), number, "g") for number in range(count)],
                Factory(turns=2),
                concurrency=count,
                make_environment=lambda task, sample: World(task, sample, [0, 0]),
            )
        finally:
            sys.setprofile(None)
        return counted

    few, many = await function_calls(64), await function_calls(1024)
    assert many < 16 * few * 1.1


async def test_a_users_error_in_making_an_episode_stops_the_run():
    def make(task, sample):
        raise UserError(f"task {task.id}: two tools have one name")

    with pytest.raises(UserError, match="t0: two tools"):
        await run(group_requests(tasks(1), 1), Factory(), make_environment=make)
