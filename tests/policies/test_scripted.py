"""The baselines and the test doubles, played against a little world of tools with fixed answers."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolorchestra.errors import UserError
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.parsing import check_arguments
from toolorchestra.policies import (
    Agreement,
    CheapestFirst,
    FunctionPolicy,
    OneModel,
    Oracle,
    PlannedCall,
    PolicyFactory,
    RandomCalls,
    Scripted,
)
from toolorchestra.policies.scripted import (
    SUBMIT,
    arithmetic_in,
    fill_arguments,
    finish,
    looks_failed,
    looks_unsure,
    results,
    same_answer,
)
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Action

TASK = Task("t1", "Who wrote the first program?", "Ada")
QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def tool(name: str, parameters: Mapping[str, Any] = QUERY) -> ToolSpec:
    return ToolSpec(name, f"About {name}.", parameters)


def submit(count: int) -> ToolSpec:
    numbers = [str(number) for number in range(1, count + 1)]
    return tool(SUBMIT, {"type": "object", "properties": {"result": {"enum": numbers}}, "required": ["result"]})


async def play(
    factory: PolicyFactory,
    answers: Mapping[str, str],
    *,
    submitting: bool = False,
    task: Task = TASK,
    specs: Mapping[str, ToolSpec] | None = None,
    sample: int = 0,
) -> tuple[list[list[tuple[str, Any]]], str]:
    """Play an episode. Returns the calls of each turn, and the answer."""
    policy = factory.episode(task, sample)
    history = [Message("user", task.question)]
    turns: list[list[tuple[str, Any]]] = []
    offered = [(specs or {}).get(name, tool(name)) for name in answers]
    for _ in range(20):
        done = results(history)
        tools = [*offered, submit(len(done))] if submitting and done else offered
        action = await policy.act(tuple(history), tools)
        assert action.latency_s == 0.0
        assert action.charges == ()
        calls = action.message.tool_calls
        if not calls:
            assert action.finish_reason == "stop"
            return turns, action.message.content
        assert action.finish_reason == "tool_calls"
        assert len({call.id for message in (*history, action.message) for call in message.tool_calls}) == sum(
            len(message.tool_calls) for message in (*history, action.message)
        )
        if calls[0].name == SUBMIT:
            return turns, done[int(calls[0].arguments["result"]) - 1].content
        turns.append([(call.name, dict(call.arguments)) for call in calls])
        history.append(action.message)
        for number, call in enumerate(calls, start=len(done) + 1):
            content = f"[{number}] {answers[call.name]}" if submitting else answers[call.name]
            history.append(Message("tool", content, tool_call_id=call.id, name=call.name))
    raise AssertionError("the episode does not end")


def names(turns: Sequence[Sequence[tuple[str, Any]]]) -> list[list[str]]:
    return [[name for name, _ in turn] for turn in turns]


@pytest.mark.parametrize("submitting", [False, True])
async def test_one_model_always(submitting: bool) -> None:
    turns, answer = await play(OneModel("dear"), {"cheap": "Bob", "dear": "Ada"}, submitting=submitting)
    assert turns == [[("dear", {"query": TASK.question})]]
    assert answer == "Ada"
    assert OneModel("dear").name == "always dear"


async def test_one_model_that_is_not_on_offer_gives_no_answer() -> None:
    assert await play(OneModel("gone"), {"cheap": "Bob"}) == ([], "")


ORDER = ("cheap", "middle", "dear")


def order(task: Task) -> tuple[str, ...]:
    return ORDER


@pytest.mark.parametrize("submitting", [False, True])
@pytest.mark.parametrize(
    ("answers", "asked", "final"),
    [
        (("Ada", "Bob", "Cid"), 1, "Ada"),
        (("I do not know.", "Bob", "Cid"), 2, "Bob"),
        (("Ada, but I am not sure.", "Error: broke", "Cid"), 3, "Cid"),
        (("not sure", "Error: broke", "Error: broke"), 3, "not sure"),
        (("Error: a", "Error: b", "Error: c"), 3, "Error: c"),
    ],
)
async def test_cheapest_first(answers: tuple[str, ...], asked: int, final: str, submitting: bool) -> None:
    turns, answer = await play(CheapestFirst(order), dict(zip(ORDER, answers, strict=True)), submitting=submitting)
    assert names(turns) == [[name] for name in ORDER[:asked]]
    assert answer == final


async def test_cheapest_first_by_a_rule_of_ones_own() -> None:
    factory = CheapestFirst(order, unsure=lambda answer: answer != "Cid")
    turns, answer = await play(factory, {"cheap": "Ada", "middle": "Bob", "dear": "Cid"})
    assert (len(turns), answer) == (3, "Cid")


async def test_what_is_not_on_offer_is_passed_over() -> None:
    turns, answer = await play(CheapestFirst(order), {"cheap": "I don't know", "dear": "Ada"})
    assert (names(turns), answer) == ([["cheap"], ["dear"]], "Ada")


@pytest.mark.parametrize("submitting", [False, True])
@pytest.mark.parametrize(
    ("answers", "asked", "final"),
    [
        (("Ada", "ada.", "Cid"), [["cheap", "middle"]], "ada."),
        (("Ada", "Bob", "Bob"), [["cheap", "middle"], ["dear"]], "Bob"),
        (("Ada", "Bob", "Cid"), [["cheap", "middle"], ["dear"]], "Cid"),
        (("I don't know", "I don't know", "Cid"), [["cheap", "middle"], ["dear"]], "Cid"),
        (("Error: x", "Error: x", "Error: x"), [["cheap", "middle"], ["dear"]], "Error: x"),
        (("Ada", "Error: x", "Error: y"), [["cheap", "middle"], ["dear"]], "Ada"),
    ],
)
async def test_agreement(answers: tuple[str, ...], asked: list[list[str]], final: str, submitting: bool) -> None:
    turns, answer = await play(Agreement(order), dict(zip(ORDER, answers, strict=True)), submitting=submitting)
    assert names(turns) == asked
    assert answer == final


async def test_agreement_with_one_model_only() -> None:
    assert (await play(Agreement(order), {"dear": "Ada"}))[1] == "Ada"


async def test_oracle_plays_its_plan() -> None:
    plan: list[PlannedCall | ToolCall | str] = [
        PlannedCall("search", {"query": "first program"}),
        ToolCall("x", "read", {"query": "page"}),
        "ask",
    ]
    turns, answer = await play(Oracle(lambda task: plan), {"search": "s", "read": "r", "ask": "Ada"})
    assert turns == [
        [("search", {"query": "first program"})],
        [("read", {"query": "page"})],
        [("ask", {"query": TASK.question})],
    ]
    assert answer == "Ada"


async def test_an_impossible_plan_names_the_tool() -> None:
    with pytest.raises(UserError, match=r"'gone'.*on offer: ask"):
        await play(Oracle(lambda task: ["gone"]), {"ask": "Ada"})


async def test_random_calls_are_reproducible_and_differ_by_sample() -> None:
    answers = {name: name for name in "abcdefgh"}
    first = [await play(RandomCalls(3), answers, sample=sample) for sample in range(30)]
    again = [await play(RandomCalls(3), answers, sample=sample) for sample in range(30)]
    assert first == again
    assert len({str(turns) for turns, _ in first}) > 20
    lengths = Counter(len(turns) for turns, _ in first)
    assert 0 not in lengths
    assert max(lengths) <= 3  # 0.35 a result: after three results it has certainly finished
    assert len(lengths) > 1
    used = Counter(name for turns, _ in first for turn in turns for name, _ in turn)
    assert len(used) == len(answers)


async def test_random_arguments_vary_and_fit() -> None:
    parameters = {
        "type": "object",
        "properties": {"query": {"type": "string"}, "model": {"enum": ["x", "y", "z"]}, "k": {"type": "integer"}},
        "required": ["query", "model"],
    }
    spec = tool("ask", parameters)
    seen = set()
    for sample in range(30):
        turns, _ = await play(RandomCalls(), {"ask": "a"}, specs={"ask": spec}, sample=sample, submitting=True)
        for turn in turns:
            for name, arguments in turn:
                assert check_arguments(ToolCall("c", name, arguments), spec).error is None
                seen.add((arguments["model"], "k" in arguments))
    assert len(seen) == 6


@pytest.mark.parametrize("growth", [0.0, -1.0, 1.5])
def test_random_calls_must_end(growth: float) -> None:
    with pytest.raises(UserError, match="growth"):
        RandomCalls(growth=growth)


async def test_random_without_tools_answers() -> None:
    assert await play(RandomCalls(), {}) == ([], "")


async def test_scripted_plays_from_the_start_in_every_episode() -> None:
    call = ToolCall("c1", "ask", {"query": "x"})
    factory = Scripted([call, "Ada"])
    for sample in range(2):
        turns, answer = await play(factory, {"ask": "?"}, sample=sample)
        assert (turns, answer) == ([[("ask", {"query": "x"})]], "Ada")
    policy = Scripted(["only"]).episode(TASK, 0)
    await policy.act((), ())
    with pytest.raises(UserError, match="1 moves"):
        await policy.act((), ())


async def test_functions_decide() -> None:
    def plain(history: Sequence[Message], tools: Sequence[ToolSpec]) -> str:
        return history[-1].content.upper()

    async def later(history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        return Action(Message("assistant", str(len(tools))), latency_s=0.0)

    assert (await play(FunctionPolicy(plain), {"a": ""}))[1] == TASK.question.upper()
    assert (await play(FunctionPolicy(later), {"a": "", "b": ""}))[1] == "2"


def test_finish_with_a_chosen_result() -> None:
    history = [Message("tool", text, tool_call_id=text, name="ask") for text in ("one", "two", "three")]
    assert finish(history, ()).message.content == "three"
    assert finish(history, (), choose=1).message.content == "one"
    assert finish(history, (), choose=9).message.content == "three"
    assert finish((), ()).message.content == ""
    assert finish(history, [submit(3)], choose=2).message.tool_calls[0].arguments == {"result": "2"}
    # Where the environment does not offer that number, the last one that it offers is taken.
    assert finish(history, [submit(2)]).message.tool_calls[0].arguments == {"result": "2"}
    # A submission that was refused is no result.
    refused = Message("tool", "[4] Error: no", tool_call_id="s", name=SUBMIT)
    assert finish([*history, refused], [submit(4)]).message.tool_calls[0].arguments == {"result": "3"}
    # It counts all the same.
    later = [*history, refused, Message("tool", "[5] five", tool_call_id="five", name="ask")]
    assert results(later)[-1] == (5, "five")
    assert finish(later, [submit(5)]).message.tool_calls[0].arguments == {"result": "5"}


@pytest.mark.parametrize(
    ("question", "expression"),
    [
        ("What is 37 * 41 + 5?", "37 * 41 + 5"),
        ("Compute (1,234 + 56) ÷ 2.", "(1234 + 56) / 2"),
        ("What is 12 times 9 minus 4?", "12 * 9 - 4"),
        ("Give 2^10 please", "2**10"),
        ("How much is -3.5 × 2?", "-3.5 * 2"),
        ("17 mod 5 equals?", "17 % 5"),
        ("In 1969, who was 38?", None),
        ("On 2024-01-05 it rained.", None),
        ("From 2024-10-15 on, what is .5 + 1?", ".5 + 1"),
        ("Listen. 5 + 3 = ?", "5 + 3"),
        ("3 + (4", None),
        ("no numbers at all", None),
        ("First 1 + 1, then 123 + 456 - 7.", "123 + 456 - 7"),
    ],
)
def test_arithmetic_in_a_question(question: str, expression: str | None) -> None:
    assert arithmetic_in(question) == expression


@given(st.text(alphabet="0123456789+-*/%(). ×÷^plustime,", max_size=200))
def test_arithmetic_is_found_safely(question: str) -> None:
    found = arithmetic_in(question)
    assert found is None or set(found) <= set("0123456789+-*/%(). ")


def test_arithmetic_in_a_hostile_text_takes_no_time() -> None:
    began = time.perf_counter()
    assert arithmetic_in("(" * 100_000 + "1+1") is None
    assert arithmetic_in("1+" * 100_000) is None
    assert arithmetic_in("1 ." * 100_000) is None
    assert time.perf_counter() - began < 0.5


def test_arguments_by_name_and_type() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "expression": {"type": "string"},
            "code": {"type": "string"},
            "topic": {"type": "string", "maxLength": 6},
            "k": {"type": "integer", "minimum": 1, "maximum": 10},
            "x": {"type": "number"},
            "model": {"enum": ["small", "large"]},
            "fixed": {"const": 7},
            "kind": {"type": "string", "default": "web"},
            "deep": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
            "list": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "flag": {"type": "boolean"},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "nullable": {"type": ["null", "string"]},
            "unasked": {"type": "string"},
        },
    }
    parameters["required"] = [name for name in parameters["properties"] if name != "unasked"]
    spec = tool("all", parameters)
    question = "What is 20 + 3?"
    arguments = fill_arguments(spec, question, choose=lambda name, values: values[-1])
    assert arguments == {
        "expression": "20 + 3",
        "code": "print(20 + 3)",
        "topic": "What i",
        "k": 3,
        "x": 20.0,
        "model": "large",
        "fixed": 7,
        "kind": "web",
        "deep": {"query": question},
        "list": [question],
        "flag": False,
        "maybe": 20,
        "nullable": question,
    }
    assert check_arguments(ToolCall("c", "all", arguments), spec).error is None
    assert fill_arguments(tool("code", {"type": "object", "properties": {"code": {}}, "required": ["code"]}), "Hi") == {
        "code": "Hi"
    }


leaf = st.one_of(
    st.just({"type": "string"}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.builds(lambda values: {"enum": values}, st.lists(st.integers() | st.text(max_size=5), min_size=1, max_size=3)),
    st.builds(
        lambda low, width: {"type": "integer", "minimum": low, "maximum": low + width},
        st.integers(-50, 50),
        st.integers(0, 9),
    ),
    st.builds(lambda high: {"type": "number", "maximum": high}, st.integers(-50, 50)),
)
schemas = st.recursive(
    leaf,
    lambda inner: (
        st.builds(lambda item, count: {"type": "array", "items": item, "minItems": count}, inner, st.integers(0, 2))
        | st.dictionaries(st.sampled_from(["query", "code", "expression", "k"]), inner, max_size=3).map(
            lambda properties: {"type": "object", "properties": properties, "required": list(properties)}
        )
    ),
    max_leaves=6,
)


@given(schema=schemas, question=st.text(alphabet="0123456789+- abc", max_size=20), optional=st.booleans())
def test_filled_arguments_fit_the_schema(schema: Any, question: str, optional: bool) -> None:
    parameters = {"type": "object", "properties": {"p": schema, "q": schema}, "required": ["p"]}
    arguments = fill_arguments(tool("any", parameters), question, optional=lambda name: optional)
    Draft202012Validator(parameters).validate(arguments)
    assert ("q" in arguments) == optional
    json.dumps(arguments)


@pytest.mark.parametrize(
    ("text", "unsure"),
    [
        ("", True),
        ("I do not know.", True),
        ("I don’t know", True),
        ("I am not sure. Maybe 7.", True),
        ("Paris, but I am not sure.", True),
        ("Unknown.", True),
        ("It cannot be determined.", True),
        ("Heisenberg's uncertainty principle", False),
        ("The Unknown Soldier", False),
        ("Surely Paris.", False),
        ("42", False),
    ],
)
def test_unsure_answers(text: str, unsure: bool) -> None:
    assert looks_unsure(text) is unsure


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("Error: no such tool", True),
        ("[error] x", True),
        ("The error was human.", False),
        ("Error bars overlap", False),
    ],
)
def test_failed_results(text: str, failed: bool) -> None:
    assert looks_failed(text) is failed


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Paris", "paris.", True),
        ("The answer is: 42", "42", True),
        ("**42**", "42", True),
        ("1.5", "15", False),
        ("-5", "5", False),
        ("", "", False),
        ("Paris", "London", False),
    ],
)
def test_same_answers(one: str, other: str, same: bool) -> None:
    assert same_answer(one, other) is same
