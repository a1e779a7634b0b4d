import asyncio
import logging
from decimal import Decimal

import pytest

from toolorchestra.environments.calls import CallsLostError, carry_out
from toolorchestra.errors import ModelFacingError, RetryableError, UserError
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.tools.base import CallContext
from toolorchestra.trajectory import Charge, ToolResult

PAID = (Charge("tool", Decimal("0.01")),)


class Tool:
    """Returns, raises, or does as a function says."""

    def __init__(self, name, outcome, *, sleep_s=0.0):
        self.spec = ToolSpec(name, "a tool")
        self.outcome = outcome
        self.sleep_s = sleep_s
        self.seen = []
        self.cancelled = False

    async def call(self, arguments, context):
        self.seen.append((arguments, context))
        try:
            await asyncio.sleep(self.sleep_s)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def call(name, number=0, **arguments):
    return ToolCall(f"c{number}", name, arguments)


async def carry(calls, *tools, **options):
    return await carry_out(calls, {tool.spec.name: tool for tool in tools}, CallContext("why?"), **options)


async def test_parallel_calls_take_as_long_as_the_slowest_and_keep_their_order():
    slow = Tool("slow", ToolResult("slow", latency_s=7.0), sleep_s=0.03)
    fast = Tool("fast", ToolResult("fast", latency_s=2.0))
    real = Tool("real", ToolResult("real"), sleep_s=0.02)
    carried = await carry([call("slow", 1), call("fast", 2), call("real", 3)], slow, fast, real)
    assert [record.result.content for record in carried.calls] == ["slow", "fast", "real"]
    assert [(message.tool_call_id, message.name) for message in carried.messages] == [
        ("c1", "slow"),
        ("c2", "fast"),
        ("c3", "real"),
    ]
    assert carried.latency_s == 7.0
    assert 0.015 < carried.calls[2].latency_s < 1.0


async def test_calls_of_a_turn_run_at_once():
    meeting = asyncio.Barrier(3)

    class Waits(Tool):
        async def call(self, arguments, context):
            await asyncio.wait_for(meeting.wait(), 5)
            return ToolResult("met")

    carried = await carry([call("t", n) for n in range(3)], Waits("t", None))
    assert [message.content for message in carried.messages] == ["met"] * 3


async def test_no_calls_are_nothing():
    assert await carry([]) == ((), (), 0.0)


async def test_a_malformed_call_is_told_and_the_others_run():
    tool = Tool("t", ToolResult("fine"))
    bad = ToolCall("c1", "t", error="the arguments are not valid JSON", raw="{")
    carried = await carry([bad, call("t", 2)], tool)
    assert carried.messages[0] == Message(
        "tool", "Error: the arguments are not valid JSON", tool_call_id="c1", name="t"
    )
    assert carried.calls[0].call == bad
    assert carried.messages[1].content == "fine"
    assert len(tool.seen) == 1


async def test_an_unknown_tool_is_told_what_there_is_and_is_not_counted_as_a_call():
    carried = await carry([call("wiki")], Tool("search", None), Tool("code", None))
    assert "no tool 'wiki'" in carried.messages[0].content
    assert "code, search" in carried.messages[0].content
    assert carried.calls[0].call.error is not None


async def test_a_model_facing_error_reaches_the_model_in_its_own_words_with_its_cost():
    error = ModelFacingError("no such page; try another title")
    error.charges = PAID
    carried = await carry([call("t")], Tool("t", error))
    assert carried.messages[0].content == "Error: no such page; try another title"
    assert carried.calls[0].result.error == "no such page; try another title"
    assert carried.calls[0].result.charges == PAID


async def test_a_broken_tool_is_an_observation_without_its_secrets(caplog, monkeypatch):
    monkeypatch.setenv("DEMO_API_KEY", "abcdefgh12345678")
    with caplog.at_level(logging.WARNING):
        carried = await carry([call("t")], Tool("t", ZeroDivisionError("boom with abcdefgh12345678")))
    record = carried.calls[0]
    assert "the tool t broke (ZeroDivisionError)" in record.result.content
    assert "boom" not in record.result.content
    assert record.result.error == "ZeroDivisionError: boom with [hidden]"
    assert "boom" in caplog.text
    assert "abcdefgh12345678" not in caplog.text


async def test_a_retryable_error_is_missing_data_and_what_the_others_cost_is_kept():
    lost = RetryableError("overloaded", retry_after_s=3.0)
    lost.charges = PAID
    other = Tool("other", ToolResult("paid", charges=PAID), sleep_s=0.02)
    with pytest.raises(CallsLostError, match="overloaded") as caught:
        await carry([call("lost", 1), call("other", 2)], Tool("lost", lost), other)
    assert [record.result.content for record in caught.value.calls] == ["paid"]
    assert caught.value.charges == PAID
    assert caught.value.retry_after_s == 3.0


async def test_a_users_error_stops_at_once_and_leaves_nothing_running():
    other = Tool("other", ToolResult("never"), sleep_s=60)
    with pytest.raises(UserError, match="key"):
        await carry([call("bad", 1), call("other", 2)], Tool("bad", UserError("no key"), sleep_s=0.01), other)
    assert other.cancelled


async def test_cancelling_cancels_the_calls():
    tools = [Tool(name, ToolResult("never"), sleep_s=60) for name in "ab"]
    task = asyncio.create_task(carry([call("a", 1), call("b", 2)], *tools))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(tool.cancelled for tool in tools)


async def test_a_call_is_stopped_when_the_time_is_up_and_the_quick_one_is_kept():
    slow = Tool("slow", ToolResult("never"), sleep_s=60)
    carried = await carry([call("slow", 1), call("fast", 2)], slow, Tool("fast", ToolResult("ok")), time_left_s=0.05)
    assert slow.cancelled
    assert "stopped" in carried.messages[0].content
    assert carried.calls[0].result.error == "out of time"
    assert carried.messages[1].content == "ok"
    assert carried.latency_s == pytest.approx(0.05, abs=0.04)


async def test_a_timeout_of_the_tools_own_is_a_failure_of_the_tool():
    carried = await carry([call("t")], Tool("t", TimeoutError("inner")), time_left_s=30)
    assert carried.calls[0].result.error == "TimeoutError: inner"


async def test_the_tool_sees_its_arguments_and_the_time_left():
    tool = Tool("t", ToolResult("ok"))
    await carry([call("t", query="x")], tool, time_left_s=12.0)
    ((arguments, context),) = tool.seen
    assert arguments == {"query": "x"}
    assert context == CallContext("why?", time_left_s=12.0)


async def test_a_long_result_is_cut_with_a_note():
    carried = await carry([call("t")], Tool("t", ToolResult("x" * 1000, error="e" * 9000)), max_chars=100)
    content = carried.messages[0].content
    assert content.startswith("x" * 100 + "\n[cut: 100 of 1000")
    assert carried.calls[0].result.content == content
    assert len(carried.calls[0].result.error) < 600


async def test_more_calls_than_allowed_are_refused():
    tool = Tool("t", ToolResult("ok"))
    carried = await carry([call("t", n) for n in range(5)], tool, max_calls=3)
    assert len(tool.seen) == 3
    assert len(carried.messages) == 5
    assert "at most 3 calls" in carried.messages[4].content
    assert [record.call.error is None for record in carried.calls] == [True] * 3 + [False] * 2
