import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.files import to_json_text
from toolorchestra.messages import ROLES, Message, ToolCall, ToolSpec
from toolorchestra.pricing import Usage
from toolorchestra.records import trajectory_from_json, trajectory_to_json
from toolorchestra.trajectory import (
    Action,
    AllowedTokens,
    CallRecord,
    Charge,
    Observation,
    Outcome,
    SampledTurn,
    Step,
    ToolResult,
    Trajectory,
)

text = st.text(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(text, plain, max_size=2)
seconds = st.floats(0, 1e6)
count = st.integers(0, 10**9)
calls = st.builds(ToolCall, text, text, objects, st.none() | text, text)
messages = st.builds(
    Message,
    st.sampled_from(ROLES),
    text,
    text,
    st.lists(calls, max_size=2).map(tuple),
    st.none() | text,
    st.none() | text,
)
specs = st.lists(st.builds(ToolSpec, text, text, objects), max_size=2).map(tuple)
usages = st.builds(Usage, count, st.integers(5, 99), count, count, count, st.integers(0, 5))
dollars = st.none() | st.decimals(allow_nan=False, allow_infinity=False)
charges = st.lists(st.builds(Charge, text, dollars, seconds, st.none() | usages, text, text), max_size=2).map(tuple)
results = st.builds(ToolResult, text, charges, st.none() | seconds, st.none() | text, objects)
ids = st.lists(count, max_size=3).map(tuple)


@st.composite
def turns(draw):
    length = draw(st.integers(0, 4))
    row = {"min_size": length, "max_size": length}
    sets = st.none() | st.builds(AllowedTokens, st.booleans(), st.sampled_from([(), (1,), (1, 5)]))
    return SampledTurn(
        context_ids=draw(ids),
        ids=tuple(draw(st.lists(count, **row))),
        logprobs=tuple(draw(st.lists(st.floats(-1e9, 0), **row))),
        sampled=tuple(draw(st.lists(st.booleans(), **row))),
        allowed=tuple(draw(st.lists(sets, **row))),
        continues=draw(st.booleans()),
        policy_version=draw(count),
        temperature=draw(st.floats(0, 2)),
    )


@st.composite
def steps(draw):
    action = draw(
        st.builds(
            Action, messages, charges, st.none() | seconds, st.none() | turns(), st.sampled_from(["stop", "length"])
        )
    )
    if draw(st.booleans()):
        return Step(action, draw(seconds), None)
    known = st.sampled_from(action.message.tool_calls) if action.message.tool_calls else calls
    records = tuple(draw(st.lists(st.builds(CallRecord, calls | known, results, seconds), max_size=2)))
    shown = draw(st.lists(messages, max_size=2))
    for record in records:
        content = draw(st.sampled_from(["", "[1] "])) + record.result.content
        shown.append(Message("tool", content, tool_call_id=record.call.id, name=record.call.name))
    observation = Observation(tuple(shown), draw(specs), records, draw(seconds), draw(charges), draw(st.booleans()))
    return Step(action, draw(seconds), observation)


outcomes = st.builds(Outcome, st.none() | st.booleans(), st.none() | text, text, text, charges)
trajectories = st.builds(
    Trajectory,
    text,
    count,
    text,
    text,
    st.lists(messages, max_size=2).map(tuple),
    specs,
    st.lists(steps(), max_size=3).map(tuple),
    st.none() | outcomes,
    st.sampled_from(["done", "limit", "missing"]),
    st.none() | text,
    st.booleans(),
    st.none() | text,
    text,
    seconds,
    objects,
)

SPEC = ToolSpec("search", "finds things", {"type": "object", "properties": {"query": {"type": "string"}}})
CALL = ToolCall("c1", "search", {"query": "x"})
FOUND = CallRecord(CALL, ToolResult("a long document", (Charge("search", Decimal("0.0010")),)), 1.5)
LOOKED = Step(
    Action(Message("assistant", tool_calls=(CALL,))),
    0.5,
    Observation((Message("tool", "a long document", tool_call_id="c1", name="search"),), (SPEC,), (FOUND,), 1.5),
)
EXAMPLE = Trajectory("t", 0, "g", "p", (Message("user", "?"),), (SPEC,), (LOOKED, LOOKED), Outcome(True, "4"))


def through_a_file(trajectory):
    return trajectory_from_json(json.loads(to_json_text(trajectory_to_json(trajectory))))


@settings(max_examples=60)
@given(trajectories)
def test_a_trajectory_comes_back_as_it_was(trajectory):
    again = through_a_file(trajectory)
    assert again == trajectory
    assert again.cost_usd == trajectory.cost_usd
    assert through_a_file(again) == again


def test_dollars_keep_every_digit():
    usd = Decimal("0.1000000000000000000000000001")
    again = through_a_file(Trajectory("t", 0, "g", "p", outcome=Outcome(None, charges=(Charge("j", usd),))))
    assert str(again.outcome.charges[0].usd) == str(usd)
    assert (
        Decimal("1E-7")
        == through_a_file(Trajectory("t", 0, "g", "p", outcome=Outcome(None, charges=(Charge("j", Decimal("1E-7")),))))
        .outcome.charges[0]
        .usd
    )


def test_nothing_is_said_twice():
    record = trajectory_to_json(EXAMPLE)
    line = json.dumps(record)
    assert line.count("a long document") == 2  # once a step
    assert line.count("finds things") == 1
    assert record["steps"][0]["observation"]["messages"] == [{"result": 0}]
    assert through_a_file(EXAMPLE) == EXAMPLE


def test_a_grammars_sets_stand_once_each():
    wide = AllowedTokens(True, tuple(range(1000)))
    turn = SampledTurn((), (1,) * 50, (0.0,) * 50, (True,) * 50, (wide,) * 49 + (None,))
    trajectory = Trajectory("t", 0, "g", "p", steps=(Step(Action(Message("assistant", "x"), tokens=turn), 0.0, None),))
    assert len(json.dumps(trajectory_to_json(trajectory))) < 8000
    assert through_a_file(trajectory) == trajectory


def test_a_turn_whose_rows_do_not_align_is_refused():
    turn = SampledTurn((), (1, 2), (0.0,), (True, True), (None, None))
    step = Step(Action(Message("assistant"), tokens=turn), 0.0, None)
    with pytest.raises(ValueError, match="different lengths"):
        trajectory_to_json(Trajectory("t", 0, "g", "p", steps=(step,)))


def test_half_a_surrogate_pair_survives():
    trajectory = Trajectory("t", 0, "g", "p", (Message("user", "\ud83d"),))
    assert trajectory_from_json(json.loads(json.dumps(trajectory_to_json(trajectory)))) == trajectory


@pytest.mark.parametrize("value", [{}, {"v": 2}, {"v": "1"}, [], None])
def test_another_version_is_named(value):
    with pytest.raises(UserError, match=r"runs/x.jsonl:7: a trajectory record of version .* reads version 1"):
        trajectory_from_json(value, where="runs/x.jsonl:7")


def broken(**changes):
    return {**json.loads(to_json_text(trajectory_to_json(EXAMPLE))), **changes}


@pytest.mark.parametrize(
    "value",
    [
        broken(steps=3),
        broken(steps=[{}]),
        broken(steps=[None]),
        broken(start=[[]]),
        broken(tools=["x"]),
        broken(outcome={"solved": True}),
        broken(outcome={"solved": 1, "answer": "", "judge": "", "reason": "", "charges": [{"source": "", "usd": "x"}]}),
        {key: value for key, value in broken().items() if key != "task_id"},
    ],
)
def test_a_broken_record_names_its_line(value):
    with pytest.raises(UserError, match=r"^runs/x.jsonl:7: .*remove the line$"):
        trajectory_from_json(value, where="runs/x.jsonl:7")
