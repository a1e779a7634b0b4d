"""A chat model as the orchestrator: what it costs, how it thinks, and where its context ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import pytest

from toolorchestra.errors import LimitReached
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.models import (
    AttemptsFailedError,
    ChatEndpoint,
    Completion,
    RecordedAnswer,
    RecordedModel,
    Retries,
    Sampling,
)
from toolorchestra.policies import ChatPolicy
from toolorchestra.pricing import Price
from toolorchestra.tasks import Task
from toolorchestra.testing import Fault, MockChatServer, MockReply
from toolorchestra.trajectory import ORCHESTRATOR, Charge

TASK = Task("t", "What is up?", "the sky")
HISTORY = [Message("user", "What is up?")]
SEARCH = ToolSpec("search", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})


class Fixed:
    """A model that gives one completion and keeps what it was asked."""

    name = "fixed"

    def __init__(self, completion: Completion) -> None:
        self.completion = completion
        self.asked: Sequence[Message] = ()
        self.sampling = Sampling()

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec] = (), sampling: Sampling = Sampling()
    ) -> Completion:
        self.asked, self.sampling = messages, sampling
        return self.completion


def saying(content: str, *calls: ToolCall, reasoning: str = "", finish: str = "stop") -> Fixed:
    return Fixed(Completion(Message("assistant", content, reasoning, calls), finish_reason=finish))


async def test_over_http() -> None:
    price = Price(input=Decimal(1), output=Decimal(2))
    reply = MockReply(tool_calls=[("search", {"query": "up"})], usage={"prompt_tokens": 100, "completion_tokens": 50})
    async with MockChatServer([reply]) as server, ChatEndpoint("orch", "m", server.base_url, price=price) as model:
        policy = ChatPolicy(model, system="Use tools.")
        action = await policy.episode(TASK, 0).act(HISTORY, [SEARCH])
        sent = server.requests[0].json
    assert policy.name == "orch"
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert sent["tools"] == [SEARCH.to_wire()]
    assert action.message.tool_calls[0].arguments == {"query": "up"}
    assert action.finish_reason == "tool_calls"
    assert action.latency_s is None
    assert [(charge.source, charge.usd) for charge in action.charges] == [(ORCHESTRATOR, Decimal("0.0002"))]


async def test_every_charge_is_the_orchestrators() -> None:
    charges = (Charge("m", Decimal(1), note="attempt 1 of 2, failed"), Charge("m", None))
    action = await ChatPolicy(Fixed(Completion(Message("assistant", "x"), charges))).act(HISTORY, ())
    assert [(charge.source, charge.usd, charge.note) for charge in action.charges] == [
        (ORCHESTRATOR, Decimal(1), "attempt 1 of 2, failed"),
        (ORCHESTRATOR, None, ""),
    ]


async def test_what_a_lost_turn_cost_is_the_orchestrators_too() -> None:
    unusable = Fault(body={"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 0}})
    once = Retries(attempts=1)
    price = Price(input=Decimal(1))
    async with (
        MockChatServer([unusable]) as server,
        ChatEndpoint("m", "m", server.base_url, price=price, retries=once) as model,
    ):
        with pytest.raises(AttemptsFailedError) as failure:
            await ChatPolicy(model).act(HISTORY, ())
    assert [(charge.source, charge.usd) for charge in failure.value.charges] == [(ORCHESTRATOR, Decimal("0.001"))]


async def test_recorded_seconds_are_virtual() -> None:
    model = RecordedModel("old", [RecordedAnswer("What is up?", "the sky", latency_s=3.5)])
    assert (await ChatPolicy(model, label="replay").act(HISTORY, ())).latency_s == 3.5


async def test_thinking_in_the_content_becomes_reasoning() -> None:
    message = (await ChatPolicy(saying("<think>hm</think>\nthe sky", reasoning="first")).act(HISTORY, ())).message
    assert message == Message("assistant", "the sky", "first\nhm")


async def test_a_call_that_the_server_left_in_the_text_is_no_answer() -> None:
    action = await ChatPolicy(saying('<tool_call>{"name": "search", "arguments": {"query": 3')).act(HISTORY, [SEARCH])
    (call,) = action.message.tool_calls
    assert call.error is not None
    assert call.id == "call_1_0"
    assert action.message.content == ""
    assert action.finish_reason == "tool_calls"


async def test_calls_that_the_server_read_stand() -> None:
    call = ToolCall("c", "search", {"query": "x"})
    model = saying("<think>hm</think>", call, finish="tool_calls")
    action = await ChatPolicy(model).act(HISTORY, [SEARCH])
    assert action.message == Message("assistant", "", "hm", (call,))
    assert action.finish_reason == "tool_calls"


async def test_a_cut_reply_stays_cut() -> None:
    assert (await ChatPolicy(saying("<think>endless", finish="length")).act(HISTORY, ())).finish_reason == "length"


async def test_one_system_message() -> None:
    model = saying("x")
    policy = ChatPolicy(model, system="First.", sampling=Sampling(temperature=0.2))
    await policy.act([Message("system", "Second."), *HISTORY], ())
    assert model.asked == (Message("system", "First.\n\nSecond."), *HISTORY)
    assert model.sampling == Sampling(temperature=0.2)
    await ChatPolicy(model).act(HISTORY, ())
    assert list(model.asked) == HISTORY


async def test_an_outgrown_context_is_a_limit() -> None:
    said = "This model's maximum context length is 100 tokens. However, your messages resulted in 120 tokens."
    faults = [Fault.error(400, said), Fault.error(413, "too large")]
    async with MockChatServer(faults) as server, ChatEndpoint("m", "m", server.base_url, price=None) as model:
        with pytest.raises(LimitReached) as reached:
            await ChatPolicy(model).act(HISTORY, ())
        assert (reached.value.limit, reached.value.allowed, reached.value.used) == ("tokens", 100, 120)
        with pytest.raises(LimitReached) as reached:
            await ChatPolicy(model).act(HISTORY, ())
        assert math.isnan(reached.value.allowed)
