from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.preferences import Preference
from toolorchestra.rewards import RewardSettings
from toolorchestra.tasks import Task
from toolorchestra.training.collect import build_batch, pick_tasks, tool_names
from toolorchestra.trajectory import (
    Action,
    CallRecord,
    Charge,
    Observation,
    Outcome,
    SampledTurn,
    Step,
    ToolResult,
    Trajectory,
)

TOOLS = (ToolSpec("ask", ""), ToolSpec("look", ""))


def some(count):
    return [Task(f"t{number}", "q", "a") for number in range(count)]


def ids(tasks):
    return [task.id for task in tasks]


sizes = st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3))  # pairs of tasks, pairs a step, run length


@given(sizes, st.integers(0, 3))
def test_every_pass_has_every_task_once_and_runs_stay_together(sizes, seed):
    runs, a_step, length = sizes
    tasks, count = some(runs * length), a_step * length
    steps = [pick_tasks(tasks, step, count, seed, run_length=length) for step in range(3 * runs)]
    assert all(len(step) == count for step in steps)
    walked = [task for step in steps for task in step]
    for start in range(0, len(walked) - len(tasks) + 1, len(tasks)):
        assert sorted(ids(walked[start : start + len(tasks)])) == sorted(ids(tasks))
    for step in steps:
        for start in range(0, count, length):
            first = tasks.index(step[start])
            assert step[start : start + length] == tasks[first : first + length]


@given(st.integers(2, 12), st.data())
def test_no_task_stands_twice_in_a_step(size, data):
    # Its rollouts would be one group with every rollout doubled.
    count = data.draw(st.integers(1, size))
    seed = data.draw(st.integers(0, 5))
    for step in range(3 * size):
        picked = ids(pick_tasks(some(size), step, count, seed))
        assert len(set(picked)) == count


def test_a_step_depends_on_its_number_and_the_seed_alone():
    tasks = some(10)
    assert pick_tasks(tasks, 7, 4, 0) == pick_tasks(tasks, 7, 4, 0)
    assert [ids(pick_tasks(tasks, step, 4, 0)) for step in range(5)] != [
        ids(pick_tasks(tasks, step, 4, 1)) for step in range(5)
    ]
    assert ids(pick_tasks(tasks, 0, 10, 0)) != ids(pick_tasks(tasks, 1, 10, 0)), "each pass has its own order"


def rollout(task, sample, *, tool="ask", solved=True, usd="0.01", status="done", **changes):
    call = ToolCall("c", tool, {})
    charge = Charge(tool, Decimal(usd), 1.0)
    seen = Observation(calls=(CallRecord(call, ToolResult("x", (charge,), 2.0), 2.0),), latency_s=2.0, done=True)
    turn = SampledTurn((5, 6), (7, 8, 9), (-0.5, 0.0, -0.2), (True, False, True), (None,) * 3, continues=False)
    steps = (Step(Action(Message("assistant", tool_calls=(call,)), tokens=turn), 1.0, seen),)
    values = {
        "steps": steps,
        "status": status,
        "outcome": None if status == "missing" else Outcome(solved, "an answer"),
        "tools": TOOLS,
        "kind": task.kind,
    }
    return Trajectory(task.id, sample, f"step/{task.id}", "p", **(values | changes))


EASY = Task("easy", "q", "a", kind="simple", preference=Preference(compute=0.5))
HARD = Task("hard", "q", "a", kind="tough", preference=Preference(tools={"look": 0.5}))
TASKS = {task.id: task for task in (EASY, HARD)}


def test_a_batch_holds_each_rollouts_tokens_with_its_worth():
    members = [
        rollout(EASY, 0, usd="0.01"),
        rollout(EASY, 1, usd="0.03"),
        rollout(EASY, 2, solved=False),
        rollout(EASY, 3, status="missing"),
    ]
    batch = build_batch(members, TASKS, RewardSettings())
    cheap, dear, failed, missing = batch.sequences
    assert [each.sample for each in batch.sequences] == [0, 1, 2, 3]
    assert cheap.reward == pytest.approx(1.5)
    assert cheap.reward_parts["compute"] == pytest.approx(0.5)
    assert dear.reward == pytest.approx(1.0)
    assert failed.reward == 0.0
    assert cheap.advantage > dear.advantage > failed.advantage
    assert sum(each.advantage for each in batch.sequences) == pytest.approx(0.0)
    assert [each.trained for each in batch.sequences] == [True, True, True, False]
    assert missing.reward is None
    assert missing.advantage == 0.0
    assert cheap.loss_mask == (False, False, True, False, True)


def test_groups_are_told_apart_by_their_ids_not_by_their_place():
    members = [rollout(task, sample, solved=sample == 0) for sample in range(2) for task in (EASY, HARD)]
    batch = build_batch(members, TASKS, RewardSettings())
    assert batch.metrics["groups"] == 2
    by_rollout = {(each.task_id, each.sample): each.advantage for each in batch.sequences}
    assert by_rollout["easy", 0] == pytest.approx(1.0)
    assert by_rollout["hard", 1] == pytest.approx(-1.0)


def test_a_group_without_spread_is_kept_out_and_counted():
    members = [*(rollout(EASY, sample) for sample in range(3)), *(rollout(HARD, n, solved=n > 0) for n in range(3))]
    batch = build_batch(members, TASKS, RewardSettings())
    assert [each.trained for each in batch.sequences] == [False] * 3 + [True] * 3
    assert all(each.advantage == 0.0 for each in batch.sequences[:3])
    assert batch.metrics["groups_kept"] == 1
    assert batch.metrics["left_out"] == {"low_spread": 3}


def test_missing_rollouts_are_in_no_mean():
    members = [
        rollout(EASY, 0, usd="0.02"),
        rollout(EASY, 1, solved=False, usd="0.04", tool="look"),
        rollout(EASY, 2, status="missing", usd="5", steps=()),
        rollout(HARD, 0, solved=None, usd="0.06"),
    ]
    metrics = build_batch(members, TASKS, RewardSettings()).metrics
    assert metrics["rollouts"] == 4
    assert metrics["missing"] == 1
    assert metrics["accuracy"] == 0.5
    assert metrics["cost_usd"] == pytest.approx(0.04)
    assert metrics["latency_s"] == pytest.approx(3.0)
    assert metrics["turns"] == 1.0
    assert metrics["calls"] == {"simple": {"ask": 0.5, "look": 0.5}, "tough": {"ask": 1.0}}
    assert metrics["left_out"]["missing"] == 1
    assert metrics["left_out"]["no_verdict"] == 1


def test_labels_name_tools_by_what_they_are_for():
    members = [rollout(HARD, 0, tool="look"), rollout(HARD, 1, tool="ask")]
    metrics = build_batch(members, TASKS, RewardSettings(), lambda task, tool: f"{task.kind} {tool}").metrics
    assert metrics["calls"] == {"tough": {"tough ask": 0.5, "tough look": 0.5}}
    assert metrics["reward_parts"]["tool:tough look"] == pytest.approx(0.25)


def test_nothing_at_all_has_no_means():
    metrics = build_batch([], TASKS, RewardSettings()).metrics
    assert (metrics["reward"], metrics["accuracy"], metrics["cost_usd"]) == (None, None, None)
    lost = build_batch([rollout(EASY, 0, status="missing", steps=())], TASKS, RewardSettings())
    assert lost.sequences == ()
    assert lost.metrics["reward"] is None


def test_a_rollout_that_a_limit_cut_before_it_spoke_again_is_no_obstacle():
    spoken = rollout(EASY, 0)
    cut = Step(Action(Message("assistant"), finish_reason="length"), 9.0, None)
    limited = rollout(EASY, 1, solved=False, status="limit", steps=(*spoken.steps, cut))
    batch = build_batch([spoken, limited], TASKS, RewardSettings())
    assert len(batch.sequences) == 2


def test_the_metric_vector_names_what_was_on_offer_called_or_wished():
    member = rollout(EASY, 0, tool="submit_answer")
    assert tool_names([member], Preference(tools={"gone": 1.0})) == ("ask", "look", "submit_answer", "gone")
