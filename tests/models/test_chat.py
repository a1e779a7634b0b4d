"""The endpoint against a real local server that misbehaves on demand."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import warnings
from decimal import Decimal
from typing import Any

import pytest

from toolorchestra.errors import RetryableError, UnreachableError, UserError
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.models import (
    AttemptsFailedError,
    ChatEndpoint,
    ChatOptions,
    Completion,
    ContextLengthError,
    Retries,
    Sampling,
    SessionPool,
)
from toolorchestra.pricing import Price, Usage
from toolorchestra.testing import Fault, MockChatServer, MockReply, Script

QUESTION = [Message("user", "What is 6 x 7?")]
ADD = ToolSpec(
    "add",
    "Adds.",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
)
# The prices of the expert in the case of billed retries: dollars for a million tokens.
PRICE = Price(input=Decimal("1.25"), output=Decimal(10), source="test")
FAST = Retries(attempts=3, base_s=0.001, cap_s=0.002)
KEY = "sk-a-secret-that-nobody-may-see-0123456789"


def endpoint(server: MockChatServer, **settings: Any) -> ChatEndpoint:
    given = {"price": PRICE, "retries": FAST, "seed": 0, **settings}
    return ChatEndpoint("expert", "org/expert", server.base_url, **given)


async def ask(script: Script, *, tools: tuple[ToolSpec, ...] = (), **settings: Any) -> Completion:
    async with MockChatServer(script) as server, endpoint(server, **settings) as model:
        return await model.complete(QUESTION, tools=tools)


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


async def test_sends_and_reads_the_wire() -> None:
    history = [
        Message("system", "Be brief."),
        Message("user", "2+3?"),
        Message("assistant", reasoning="secret", tool_calls=(ToolCall("c1", "add", {"a": 2, "b": 3}),)),
        Message("tool", "5", tool_call_id="c1", name="add"),
    ]
    reply = MockReply("5", reasoning="easy", usage=usage(1000, 100))
    sampling = ChatOptions(
        sampling=Sampling(temperature=0.7, max_tokens=64),
        extra_body={"chat_template_kwargs": {"enable_thinking": False}},
    )
    async with MockChatServer([reply]) as server, endpoint(server, options=sampling) as model:
        completion = await model.complete(history, tools=[ADD], sampling=Sampling(temperature=0.0, stop=("\n",)))
        sent = server.requests[0]
    assert sent.json == {
        "model": "org/expert",
        "messages": [message.to_wire() for message in history],
        "temperature": 0.0,
        "max_tokens": 64,
        "stop": ["\n"],
        "tools": [ADD.to_wire()],
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert "Authorization" not in sent.headers
    assert "secret" not in json.dumps(sent.json)
    assert completion.message == Message("assistant", "5", "easy")
    assert completion.latency_s is None
    assert completion.model == "org/expert"
    (charge,) = completion.charges
    assert charge.source == "expert"
    assert charge.usd == Decimal("0.00225")
    assert charge.usage == Usage(input_tokens=1000, output_tokens=100)
    assert charge.price == "test"
    assert charge.latency_s > 0
    assert charge.note == ""


async def test_calls_are_checked_and_malformed_ones_are_no_exception() -> None:
    reply = MockReply(tool_calls=[("add", {"a": "2", "b": 3}), ("add", '{"a": 2'), ("subtract", {})])
    completion = await ask([reply], tools=(ADD,))
    good, torn, unknown = completion.message.tool_calls
    assert good.arguments == {"a": 2, "b": 3}
    assert good.error is None
    assert torn.error is not None
    assert unknown.error is not None
    assert completion.finish_reason == "tool_calls"


async def test_no_tools_key_without_tools() -> None:
    async with MockChatServer([MockReply("x")]) as server, endpoint(server) as model:
        await model.complete(QUESTION)
        assert "tools" not in server.requests[0].json


async def test_every_attempt_that_returned_usage_is_charged() -> None:
    # Billed, then unusable; the retry is billed too: 0.009250 + 0.008715 dollars.
    unusable = Fault(body={"choices": [], "usage": usage(1800, 700)})
    completion = await ask([Fault.error(503, "busy"), unusable, MockReply("42", usage=usage(1852, 640))])
    assert [charge.usd for charge in completion.charges] == [Decimal("0.009250"), Decimal("0.008715")]
    assert sum(charge.usd or 0 for charge in completion.charges) == Decimal("0.017965")
    assert [charge.note for charge in completion.charges] == ["attempt 2 of 3, failed", "attempt 3 of 3"]


async def test_what_failed_attempts_cost_is_on_the_error() -> None:
    unusable = Fault(body={"choices": [], "usage": usage(1000, 0)})
    with pytest.raises(AttemptsFailedError, match=r"no choices.*attempt 3 of 3") as failure:
        await ask([unusable] * 3)
    assert failure.value.attempts == 3
    assert [charge.usd for charge in failure.value.charges] == [Decimal("0.00125")] * 3
    assert isinstance(failure.value, RetryableError)


async def test_cached_tokens_are_billed_once_at_their_price() -> None:
    price = Price(input=Decimal("1.1"), cache_read=Decimal("0.275"), output=Decimal("4.4"))
    wire = {**usage(5000, 512), "prompt_tokens_details": {"cached_tokens": 4096}}
    completion = await ask([MockReply("x", usage=wire)], price=price)
    assert completion.charges[0].usd is not None
    assert round(completion.charges[0].usd, 6) == Decimal("0.004374")


@pytest.mark.parametrize(
    ("wire", "price", "usd", "said"),
    [
        (None, PRICE, None, "no usage"),
        (usage(10, 5), None, None, "no price"),
        ({"prompt_tokens": -1}, PRICE, None, "cannot be read"),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, PRICE, None, "cannot be read"),
        (None, Price(), Decimal(0), "no usage"),
    ],
)
async def test_unknown_cost_is_none_and_says_why(
    wire: Any, price: Price | None, usd: Decimal | None, said: str
) -> None:
    (charge,) = (await ask([MockReply("x", usage=wire)], price=price)).charges
    assert charge.usd == usd
    assert said in charge.note


@pytest.mark.parametrize(
    "fault",
    [
        Fault.error(429, "slow down"),
        Fault.error(500, "oops"),
        Fault.error(503, "busy", Retry_After="soon"),
        Fault.error(503, "busy", Retry_After="-5"),
        Fault(body={"choices": [{"message": {"content": "half"}}]}, broken="torn"),
        Fault(broken="disconnect"),
        Fault(body='{"choices": [{"mess'),
        Fault(body="<html>unusual traffic</html>"),
        Fault(body='{"a":' * 5000),
        Fault(body={"error": {"code": 429, "message": "slow down"}}),
        Fault(body={"error": {"message": "upstream died"}, "choices": None}),
        Fault(body={"choices": [{"message": None}]}),
        Fault(body="null"),
        Fault(body=""),
    ],
    ids=lambda fault: f"{fault.status} {str(fault.body)[:20]} {fault.broken}",
)
async def test_what_may_pass_is_tried_again(fault: Fault) -> None:
    completion = await ask([fault, MockReply("42")])
    assert completion.message.content == "42"
    assert len(completion.charges) == 1
    async with MockChatServer([fault] * 9) as server, endpoint(server) as model:
        with pytest.raises(AttemptsFailedError):
            await model.complete(QUESTION)
        assert server.count == 3


async def test_retry_after_is_obeyed() -> None:
    began = time.perf_counter()
    await ask([Fault.error(429, "slow", Retry_After="0.15"), MockReply("x")])
    assert time.perf_counter() - began >= 0.15


async def test_a_wait_beyond_the_cap_fails_at_once() -> None:
    async with MockChatServer([Fault.error(429, "slow", Retry_After="3600")] * 3) as server, endpoint(server) as model:
        with pytest.raises(AttemptsFailedError, match="3600 s, more than the 120 s allowed") as failure:
            await model.complete(QUESTION)
        assert server.count == 1
    assert failure.value.retry_after_s == 3600.0


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        (Fault.error(401, "bad key"), UnreachableError, "api_key_env"),
        (Fault.error(404, "no such model"), UserError, "org/expert"),
        (Fault.error(400, "top_q?"), UserError, "top_q"),
        (Fault.error(400, "long", code="context_length_exceeded"), ContextLengthError, "too long"),
        (Fault.error(307, "moved", Location="http://127.0.0.1:9/v1"), UserError, "redirects"),
    ],
)
async def test_what_does_not_pass_is_not_tried_again(fault: Fault, error: type[Exception], said: str) -> None:
    async with MockChatServer([fault] * 3) as server, endpoint(server) as model:
        with pytest.raises(error, match=said):
            await model.complete(QUESTION)
        assert server.count == 1


async def test_a_refused_text_keeps_what_was_spent() -> None:
    unusable = Fault(body={"choices": [], "usage": usage(1000, 0)})
    with pytest.raises(ContextLengthError) as failure:
        await ask([unusable, Fault.error(413, "too large")])
    assert [charge.usd for charge in failure.value.charges] == [Decimal("0.00125")]


async def test_the_key_is_sent_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EXPERT_KEY", f" {KEY}\n")
    caplog.set_level(0)
    echo = Fault.error(401, f"Incorrect API key provided: {KEY}")
    async with MockChatServer([echo]) as server, endpoint(server, api_key_env="EXPERT_KEY") as model:
        with pytest.raises(UnreachableError, match="EXPERT_KEY") as failure:
            await model.complete(QUESTION)
        assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    shown = f"{failure.value!s} {failure.value!r} {model!r} {vars(model)} {caplog.text}"
    assert KEY not in shown


@pytest.mark.parametrize(
    "fault", [Fault.error(400, "odd key hunter2"), Fault(body={"error": {"code": 400, "message": "hunter2"}})]
)
async def test_a_short_key_that_a_server_echoes_is_hidden_too(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    monkeypatch.setenv("EXPERT_KEY", "hunter2")
    with pytest.raises(UserError, match=r"rejects.*\[hidden\]") as failure:
        await ask([fault], api_key_env="EXPERT_KEY")
    assert "hunter2" not in str(failure.value)
    # In an answer it is an ordinary word.
    assert (await ask([MockReply("hunter2")], api_key_env="EXPERT_KEY")).message.content == "hunter2"


@pytest.mark.parametrize("key", [None, "", "  ", "sk-ключ", "sk-a\nb"])
def test_an_unusable_key_is_named_before_any_work(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    if key is None:
        monkeypatch.delenv("EXPERT_KEY", raising=False)
    else:
        monkeypatch.setenv("EXPERT_KEY", key)
    with pytest.raises(UserError, match="EXPERT_KEY"):
        ChatEndpoint("m", "m", "http://host/v1", price=None, api_key_env="EXPERT_KEY")


@pytest.mark.parametrize(
    ("url", "said"),
    [("localhost:8000", "no URL"), ("ftp://host/v1", "no URL"), ("", "no URL"), ("http://me:pw@host/v1", "password")],
)
def test_an_unusable_url_is_named(url: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as failure:
        ChatEndpoint("m", "m", url, price=None)
    assert "pw" not in str(failure.value).replace("password", "")


def test_other_settings_are_checked() -> None:
    with pytest.raises(UserError, match="timeout_s"):
        ChatEndpoint("m", "m", "http://host/v1", price=None, timeout_s=0)
    with pytest.raises(UserError, match="limit"):
        SessionPool(limit=0)


async def test_nobody_listens() -> None:
    async with MockChatServer([]) as server:
        url = server.base_url
    async with ChatEndpoint("m", "m", url, price=None, retries=FAST) as model:
        with pytest.raises(AttemptsFailedError, match="connection failed"):
            await model.complete(QUESTION)


async def test_a_silent_server_times_out() -> None:
    began = time.perf_counter()
    with pytest.raises(AttemptsFailedError, match=r"within 0\.05 s"):
        await ask([MockReply("late", delay_s=5)] * 3, timeout_s=0.05)
    assert time.perf_counter() - began < 1


async def test_waiting_for_a_slot_is_no_timeout() -> None:
    # Eight requests of 0.05 s through one slot take 0.4 s, twice the timeout of each.
    async with (
        MockChatServer([MockReply("x", delay_s=0.05)] * 8) as server,
        SessionPool(limit=1) as pool,
        endpoint(server, timeout_s=0.2, pool=pool) as model,
    ):
        completions = await asyncio.gather(*(model.complete(QUESTION) for _ in range(8)))
        assert server.most_in_flight == 1
        assert server.count == 8
    assert all(len(completion.charges) == 1 for completion in completions)


async def test_connections_are_shared_and_bounded() -> None:
    async with MockChatServer([MockReply("x", delay_s=0.01)] * 40) as server, SessionPool(limit=4) as pool:
        models = [endpoint(server, pool=pool), endpoint(server, pool=pool)]
        await asyncio.gather(*(models[number % 2].complete(QUESTION) for number in range(40)))
        assert server.most_in_flight == 4
        async with pool.slot() as session:
            await models[0].aclose()  # a shared pool stays open
            assert not session.closed


async def test_cancelling_leaves_nothing_behind() -> None:
    script = [MockReply("late", delay_s=30), MockReply("next")]
    async with MockChatServer(script) as server, SessionPool(limit=1) as pool:
        model = endpoint(server, pool=pool)
        task = asyncio.create_task(model.complete(QUESTION))
        while server.in_flight == 0:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await model.complete(QUESTION)).message.content == "next"
        async with asyncio.timeout(2):
            while server.in_flight:
                await asyncio.sleep(0.005)


async def test_an_endless_reply_is_not_read_to_its_end() -> None:
    options = ChatOptions(max_response_bytes=1000)
    with pytest.raises(AttemptsFailedError, match="more than 1000 bytes"):
        await ask([MockReply("x" * 2000)] * 3, options=options)
    assert (await ask([MockReply("x" * 500)], options=options)).message.content == "x" * 500


async def test_token_ids() -> None:
    options = ChatOptions(token_ids=True)
    reply = MockReply(
        "ok",
        top={"prompt_token_ids": [1, 2, 3]},
        choice={"token_ids": [7, 8], "logprobs": {"content": [{"logprob": -0.1}, {"logprob": -0.2}]}},
    )
    async with MockChatServer([reply, MockReply("ok")]) as server, endpoint(server, options=options) as model:
        completion = await model.complete(QUESTION)
        assert server.requests[0].json["return_token_ids"] is True
        assert server.requests[0].json["logprobs"] is True
        assert completion.prompt_ids == (1, 2, 3)
        assert completion.completion_ids == (7, 8)
        assert completion.logprobs == (-0.1, -0.2)
        with pytest.raises(UserError, match="return_token_ids"):
            await model.complete(QUESTION)


async def test_calls_in_the_text() -> None:
    text = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    completion = await ask([MockReply(text)], tools=(ADD,), options=ChatOptions(parse_text_calls=True))
    assert completion.message.tool_calls[0].arguments == {"a": 1, "b": 2}
    assert completion.finish_reason == "tool_calls"


async def test_the_query_of_a_url_stays() -> None:
    async with MockChatServer([MockReply("x")]) as server:
        model = ChatEndpoint("m", "m", f"{server.base_url}?api-version=1", price=None)
        async with model:
            assert (await model.complete(QUESTION)).message.content == "x"
        assert server.requests[0].path == "/v1/chat/completions?api-version=1"


def test_each_event_loop_has_its_own_session() -> None:
    pool = SessionPool()
    with MockChatServer([MockReply("a"), MockReply("b")]).threaded() as server:
        model = endpoint(server, pool=pool)

        async def once() -> str:
            async with pool:
                return (await model.complete(QUESTION)).message.content

        assert [asyncio.run(once()), asyncio.run(once())] == ["a", "b"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
