from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import ModelFacingError
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.parsing import parse_output
from toolorchestra.policies import FunctionPolicy, RandomCalls
from toolorchestra.policies.tokens.engine import TokenEngine
from toolorchestra.policies.tokens.format import CompactChatML
from toolorchestra.policies.tokens.grammar import CallConstraint, call_segments
from toolorchestra.policies.tokens.guidance import GuidanceMatchers
from toolorchestra.policies.tokens.teacher import TeacherFactory, with_tokens, write_call
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Observation, Step, Trajectory

TASK = Task("t", "q", "a")
OPENING = (Message("system", "Answer."), Message("user", "What is it?"))


@pytest.fixture(scope="module")
def chat(tokenizer):
    return CompactChatML(tokenizer)


@pytest.fixture(scope="module")
def matchers(tokenizer):
    return GuidanceMatchers(tokenizer)


@pytest.fixture(scope="module")
def write(chat, matchers):
    def write(tools, name, arguments, context=(5,)):
        constraint = CallConstraint(call_segments(tools), chat.encode, matchers, chat.end)
        return write_call(constraint, chat, ToolCall("c", name, arguments), context, continues=False)

    return write


def spec(name, properties, required=None):
    needed = list(properties) if required is None else list(required)
    return ToolSpec(name, "", {"type": "object", "properties": properties, "required": needed})


def test_it_writes_what_the_sampler_would_have_written(llama, chat, matchers, tools, write):
    # The same call, token by token, with the same choices among the same alternatives.
    async def sample(seed):
        engine, constraint = TokenEngine(llama), CallConstraint(call_segments(tools), chat.encode, matchers, chat.end)
        return await engine.decode(
            engine.open("g"), [5], constraint, rng=np.random.default_rng(seed), temperature=3.0, continues=False
        )

    seen = set()
    for seed in range(25):
        sampled = asyncio.run(sample(seed))
        [call] = parse_output(chat.decode(sampled.ids), tools).calls
        written = write(tools, call.name, call.arguments)
        assert written.ids == sampled.ids
        assert written.sampled == sampled.sampled
        assert written.allowed == sampled.allowed
        seen.add(call.name)
    assert len(seen) > 1


words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)


@given(words, words, st.integers(-50, 2000))
def test_any_text_can_be_taught(chat, write, first, second, number):
    # Quotes that merge with what follows them, characters of several tokens, objects within objects.
    inner = {"type": "object", "properties": {"p": {"type": "string"}, "n": {"type": "integer"}}, "required": ["n"]}
    tools = [spec("f", {"q": {"type": "string"}, "o": inner, "x": {"enum": ["a", "ab"]}}), spec("fa", {})]
    arguments = {"q": first, "o": {"p": second, "n": number}, "x": "ab"}
    turn = write(tools, "f", arguments)
    [call] = parse_output(chat.decode(turn.ids), tools).calls
    assert call.error is None
    assert call.arguments == arguments
    assert turn.ids[-1] == chat.end
    assert len(turn.ids) == len(turn.sampled) == len(turn.allowed) == len(turn.logprobs)
    for token, chosen, allowed in zip(turn.ids, turn.sampled, turn.allowed, strict=True):
        assert not chosen or (token in allowed.ids) == allowed.only


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("other", {"x": "a"}),
        ("f", {"x": "c"}),
        ("f", {}),
        ("f", {"x": "a", "more": 1}),
        ("f", {"x": 1}),
    ],
)
def test_what_the_grammar_does_not_allow_is_not_taught(write, name, arguments):
    for tools in ([spec("f", {"x": {"enum": ["a"]}})], [spec("f", {"x": {"enum": ["a", "b"]}}), spec("g", {})]):
        with pytest.raises(ModelFacingError, match="does not fit"):
            write(tools, name, arguments)


def teach(chat, matchers, decide):
    return TeacherFactory(FunctionPolicy(decide, "guide"), chat, matchers).episode(TASK, 0)


async def test_arguments_are_written_in_the_schemas_order(chat, matchers):
    inner = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}}
    tools = [spec("f", {"y": {"enum": [1, 2]}, "o": inner})]
    teacher = teach(chat, matchers, lambda *_: ToolCall("c", "f", {"o": {"a": 3, "b": 4}, "y": 2}))
    action = await teacher.act(OPENING, tools)
    assert '{"y": 2, "o": {"b": 4, "a": 3}}' in chat.decode(action.tokens.ids)


async def test_turns_continue_each_other_as_in_sampling(chat, matchers, tools):
    teacher = TeacherFactory(RandomCalls(growth=1e-6), chat, matchers).episode(TASK, 0)
    history, joined = list(OPENING), []
    for number in range(3):
        action = await teacher.act(tuple(history), tools)
        assert action.tokens.continues is (number > 0)
        joined += [*action.tokens.context_ids, *action.tokens.ids]
        history += [action.message, Message("tool", f"[{number}] Paris", tool_call_id="c")]
    decode = chat._tokenizer.decode
    # Arguments in the message stand as the teacher gave them; here that is the schema's order too.
    assert decode([*joined, *chat.bridge(history[:-1], history[-1:], tools, closed=True)]) == decode(
        chat.prompt(history, tools)
    )


@pytest.mark.parametrize("count", [0, 2])
async def test_a_turn_is_one_call(chat, matchers, tools, count):
    call = ToolCall("c", "search", {"topic": "kings"})
    teacher = teach(chat, matchers, lambda *_: Message("assistant", "hm", tool_calls=(call,) * count))
    with pytest.raises(ModelFacingError, match=f"the teacher made {count} calls"):
        await teacher.act(OPENING, tools)


async def test_a_record_gives_the_tokens_that_were_given_when_it_was_made(chat, matchers, tools):
    """Traces get their tokens from what was stored: no tool is called again."""
    moves = [ToolCall("a", "search", {"topic": "kings"}), ToolCall("b", "search", {"topic": "kings"})]
    teacher = teach(chat, matchers, lambda history, _: Message("assistant", tool_calls=(moves[len(history) > 2],)))
    answers = (Message("tool", "Henry", tool_call_id="a", name="search"),)
    first = await teacher.act(OPENING, tools)
    history = (*OPENING, first.message, *answers)
    second = await teacher.act(history, tools)
    record = Trajectory(
        "t", 0, "g", "guide", start=tuple(OPENING), tools=tuple(tools),
        steps=(
            Step(replace(first, tokens=None), 0.0, Observation(answers, tuple(tools))),
            Step(replace(second, tokens=None), 0.0, None),
        ),
    )  # fmt: skip
    again = with_tokens(record, chat, matchers)
    assert [step.action.tokens for step in again.steps] == [first.tokens, second.tokens]


def test_it_has_its_teachers_name_and_clock(chat, matchers):
    class Simulated:
        virtual_clock = True

        async def act(self, history, tools):
            raise NotImplementedError

    class Factory:
        name = "sim"

        def episode(self, task, sample):
            return Simulated()

    factory = TeacherFactory(Factory(), chat, matchers)
    assert factory.name == "sim"
    assert factory.episode(TASK, 0).virtual_clock
    assert not teach(chat, matchers, lambda *_: "x").virtual_clock
