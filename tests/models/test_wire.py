"""Reading replies that nobody promised to be well-formed, and sending what every server accepts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.models import Sampling
from toolorchestra.models.billing import charge_for
from toolorchestra.models.wire import Reply, UnreadableReplyError, message_to_wire, read_reply, sampling_to_wire
from toolorchestra.pricing import Price

SEARCH = ToolSpec(
    "search",
    "Searches.",
    {"type": "object", "properties": {"query": {"type": "string"}, "k": {"type": "integer"}}, "required": ["query"]},
)


def body(message: Any, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}


def calling(*functions: dict[str, Any], ids: tuple[str | None, ...] = ()) -> dict[str, Any]:
    names = [*ids, *(f"c{index}" for index in range(len(ids), len(functions)))]
    calls = [{"id": name, "type": "function", "function": made} for name, made in zip(names, functions, strict=True)]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def test_content_reasoning_and_model() -> None:
    reply = read_reply(body({"content": "hi", "reasoning": "because"}, model="org/x"), ())
    assert reply == Reply(Message("assistant", "hi", "because"), "stop", "org/x")


def test_arguments_are_checked_and_coerced_without_loss() -> None:
    made = {"name": "search", "arguments": '{"query": "x", "k": "3"}'}
    reply = read_reply(body(calling(made), "tool_calls"), [SEARCH])
    assert reply.message.tool_calls == (ToolCall("c0", "search", {"query": "x", "k": 3}),)
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ({"name": "search", "arguments": '{"query": "x"'}, "not valid JSON"),
        ({"name": "search", "arguments": "[1]"}, "must be a JSON object"),
        ({"name": "search", "arguments": "{}"}, "query"),
        ({"name": "serch", "arguments": "{}"}, "there is no tool 'serch'; the tools are: search"),
        ({"arguments": "{}"}, "there is no tool ''"),
    ],
)
def test_a_malformed_call_is_for_the_model_and_the_others_stand(function: dict[str, Any], said: str) -> None:
    good = {"name": "search", "arguments": '{"query": "ok"}'}
    bad, fine = read_reply(body(calling(function, good)), [SEARCH]).message.tool_calls
    assert bad.error is not None
    assert said in bad.error
    assert bad.raw == function["arguments"]
    assert fine.error is None
    assert fine.arguments == {"query": "ok"}


def test_call_ids_are_unique_in_the_conversation() -> None:
    made = {"name": "search", "arguments": '{"query": "x"}'}
    calls = read_reply(body(calling(made, made, made, ids=(None, "a", "a"))), [SEARCH], turn=4).message.tool_calls
    assert [call.id for call in calls] == ["call_4_0", "a", "call_4_2"]


def test_cut_generation_stays_cut() -> None:
    made = {"name": "search", "arguments": '{"query": "10'}
    reply = read_reply(body(calling(made), "length"), [SEARCH])
    assert reply.finish_reason == "length"
    assert reply.message.tool_calls[0].error is not None


@pytest.mark.parametrize(
    ("finish", "meant"), [("eos", "stop"), (None, "stop"), ("max_tokens", "length"), ("tool_calls", "stop")]
)
def test_finish_reasons_of_every_server(finish: Any, meant: str) -> None:
    assert read_reply(body({"content": "x"}, finish), ()).finish_reason == meant


def test_replies_of_real_providers() -> None:
    root = Path(os.environ.get("TOOLORCHESTRA_DATA", Path(__file__).parents[3] / "shared" / "data"))
    folder = root / "llm-api-cassettes" / "tests" / "models" / "cassettes"
    if not folder.is_dir():
        pytest.skip(f"the recorded exchanges are not at {folder} (set TOOLORCHESTRA_DATA)")
    read = 0
    for path in sorted(p for name in ("test_groq", "test_openrouter") for p in (folder / name).glob("*.yaml")):
        for exchange in yaml.load(path.read_bytes(), yaml.CSafeLoader)["interactions"]:
            sent, got = exchange["request"].get("parsed_body"), exchange["response"].get("parsed_body")
            if not isinstance(got, dict) or "choices" not in got:
                continue
            tools = [ToolSpec(tool["function"]["name"], "") for tool in sent.get("tools", ()) if "function" in tool]
            reply = read_reply(got, tools, turn=len(sent["messages"]))
            wire = got["choices"][0]["message"]
            assert reply.message.content == (wire.get("content") or "")
            assert len(reply.message.tool_calls) == len(wire.get("tool_calls") or ())
            assert charge_for(got["usage"], source="m", price=Price(), latency_s=1).usage is not None
            read += 1
    assert read >= 10


def test_a_refusal_is_the_content() -> None:
    assert read_reply(body({"content": None, "refusal": "I will not."}), ()).message.content == "I will not."


def test_calls_in_the_text_are_parsed_on_request_only() -> None:
    text = '<think>hm</think>Let me see.<tool_call>{"name": "search", "arguments": {"query": "x"}}</tool_call>'
    plain = read_reply(body({"content": text}), [SEARCH])
    assert plain.message == Message("assistant", text)
    parsed = read_reply(body({"content": text}), [SEARCH], turn=2, parse_text_calls=True)
    assert parsed.finish_reason == "tool_calls"
    assert parsed.message == Message(
        "assistant", "Let me see.", "hm", (ToolCall("call_2_0", "search", {"query": "x"}),)
    )


def test_calls_that_the_server_read_go_before_calls_in_the_text() -> None:
    made = calling({"name": "search", "arguments": '{"query": "read"}'})
    made["content"] = '<tool_call>{"name": "search", "arguments": {"query": "text"}}</tool_call>'
    message = read_reply(body(made), [SEARCH], parse_text_calls=True).message
    assert [call.arguments for call in message.tool_calls] == [{"query": "read"}]
    assert message.content == ""


def test_token_ids_and_logprobs() -> None:
    reply = body({"content": "x"}, prompt_token_ids=[1, 2])
    reply["choices"][0] |= {"token_ids": [3], "logprobs": {"content": [{"token": "x", "logprob": -0.5}]}}
    read = read_reply(reply, ())
    assert (read.prompt_ids, read.completion_ids, read.logprobs) == ((1, 2), (3,), (-0.5,))
    reply["choices"][0] |= {"token_ids": ["3"], "logprobs": {"content": [{"token": "x"}]}}
    read = read_reply(reply, ())
    assert (read.completion_ids, read.logprobs) == (None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": ["x"]},
        body(None),
        body({"content": 5}),
        body({"content": [{"type": "image"}]}),
        body({"content": "x", "tool_calls": "search"}),
        body({"content": "x", "tool_calls": [None]}),
        body({"content": "x", "tool_calls": [{"function": {"name": 3}}]}),
        body({"content": "x", "tool_calls": [{"id": ["a"], "function": {"name": "search"}}]}),
    ],
)
def test_what_is_no_completion_is_told_apart(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnreadableReplyError):
        read_reply(wrong, [SEARCH])


KEYS = ["choices", "message", "content", "tool_calls", "function", "name", "arguments", "id", "logprobs", "token_ids"]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("search"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=10,
)


@given(message=anything, finish=anything, more=st.dictionaries(st.sampled_from(["model", "choices"]), anything))
def test_any_json_is_read_or_refused(message: Any, finish: Any, more: dict[str, Any]) -> None:
    try:
        reply = read_reply(body(message, finish, **more), [SEARCH], parse_text_calls=True)
    except UnreadableReplyError:
        return
    assert reply.finish_reason in ("stop", "tool_calls", "length")
    assert len({call.id for call in reply.message.tool_calls}) == len(reply.message.tool_calls)


@pytest.mark.parametrize(
    ("raw", "sent"), [('{"query": "x"', "{}"), ("", "{}"), ("[1]", "{}"), ('{"k": "3.7"}', '{"k": "3.7"}')]
)
def test_a_malformed_call_does_not_break_later_turns(raw: str, sent: str) -> None:
    wire = message_to_wire(Message("assistant", tool_calls=(ToolCall("c", "", error="wrong", raw=raw),)))
    function = wire["tool_calls"][0]["function"]
    assert function == {"name": "malformed_call", "arguments": sent}
    json.loads(function["arguments"])


def test_reasoning_is_not_sent() -> None:
    assert message_to_wire(Message("assistant", "hi", "secret thoughts")) == {"role": "assistant", "content": "hi"}


def test_only_settings_that_are_set_are_sent() -> None:
    assert sampling_to_wire(Sampling(), "max_tokens") == {}
    full = Sampling(temperature=0.0, top_p=1.0, max_tokens=5, seed=0, stop=("a",))
    assert sampling_to_wire(full, "max_completion_tokens") == {
        "temperature": 0.0,
        "top_p": 1.0,
        "max_completion_tokens": 5,
        "seed": 0,
        "stop": ["a"],
    }
