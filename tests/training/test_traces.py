"""Which of an explorer's rollouts become traces of the warm start."""

from decimal import Decimal

from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.preferences import Preference
from toolorchestra.tasks import Task
from toolorchestra.training.traces import best_verified
from toolorchestra.trajectory import Action, CallRecord, Charge, Observation, Outcome, Step, ToolResult, Trajectory

TOOLS = (ToolSpec("cheap", ""), ToolSpec("quick", ""))


def rollout(sample, names, *, solved=True, usd="0.1", seconds=1.0, status="done", task="t"):
    """A rollout that calls tools one after the other, all at one price."""
    steps = []
    for place, name in enumerate(names):
        call = ToolCall(f"c{place}", name)
        charge = Charge(name, None if usd is None else Decimal(usd))
        record = CallRecord(call, ToolResult("x", (charge,)), seconds)
        action = Action(Message("assistant", tool_calls=(call,)))
        steps.append(Step(action, 0.0, Observation((), TOOLS, (record,), seconds)))
    outcome = Outcome(solved, "x")
    return Trajectory(task, sample, task, "explorer", tools=TOOLS, steps=tuple(steps), outcome=outcome, status=status)


def kept(trajectories, preference, per_task=1):
    task = Task("t", "q", "a", preference=preference)
    return [each.sample for each in best_verified(trajectories, {"t": task}, per_task=per_task)]


DEAR_AND_QUICK = rollout(0, ["quick"], usd="0.5", seconds=1.0)
CHEAP_AND_SLOW = rollout(1, ["cheap"], usd="0.1", seconds=9.0)


def test_of_equally_short_rollouts_the_preference_decides():
    both = [DEAR_AND_QUICK, CHEAP_AND_SLOW]
    assert kept(both, Preference(compute=1.0)) == [1]
    assert kept(both, Preference(latency=1.0)) == [0]


def test_a_shorter_rollout_comes_first_whatever_it_costs():
    assert kept([rollout(2, ["cheap", "cheap"], usd="0.01"), DEAR_AND_QUICK], Preference(compute=1.0)) == [0]


def test_what_failed_was_lost_or_was_cut_is_no_trace():
    none = [
        rollout(0, ["cheap"], solved=False),
        rollout(1, ["cheap"], status="limit"),
        rollout(2, ["cheap"], status="missing"),
    ]
    assert kept(none, Preference()) == []


def test_the_same_calls_are_kept_once():
    twice = [rollout(0, ["cheap"]), rollout(1, ["cheap"]), rollout(2, ["quick"])]
    assert sorted(kept(twice, Preference(), per_task=3)) == [0, 2]


def test_where_a_cost_is_unknown_the_length_decides():
    assert kept([rollout(0, ["cheap", "cheap"], usd=None), rollout(1, ["quick"], usd=None)], Preference()) == [1]
