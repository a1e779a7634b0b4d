"""Carry out the calls of one turn: all at once, each bounded, every failure told to the model in words."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from toolorchestra.errors import ModelFacingError, RetryableError, UserError
from toolorchestra.messages import Message, ToolCall
from toolorchestra.redaction import describe_error, describe_traceback, shorten
from toolorchestra.tools.base import CallContext, Tool
from toolorchestra.trajectory import CallRecord, Charge, ToolResult

MAX_RESULT_CHARS = 20_000
MAX_CALLS = 16
_MAX_ERROR_CHARS = 500
_MAX_NAMES_SHOWN = 30

logger = logging.getLogger(__name__)


class Carried(NamedTuple):
    """What the calls of one turn came to.

    Attributes:
        calls: One record a call, in the order of the calls.
        messages: One tool message a call, in the same order.
        latency_s: Seconds of the slowest call: parallel calls count once.
    """

    calls: tuple[CallRecord, ...]
    messages: tuple[Message, ...]
    latency_s: float


class CallsLostError(RetryableError):
    """The infrastructure failed under a call, so that the whole rollout is missing data.

    Attributes:
        calls: The turn's calls that did come back. Their money is spent and must stay on the record.
        charges: What the lost calls themselves reported as spent.
    """

    def __init__(
        self, message: str, *, calls: tuple[CallRecord, ...], charges: tuple[Charge, ...], retry_after_s: float | None
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.calls = calls
        self.charges = charges


async def carry_out(
    calls: Sequence[ToolCall],
    tools: Mapping[str, Tool],
    context: CallContext,
    *,
    time_left_s: float | None = None,
    max_chars: int = MAX_RESULT_CHARS,
    max_calls: int = MAX_CALLS,
) -> Carried:
    """Carry out the calls of one turn concurrently.

    A malformed call, an unknown tool, a tool that fails and a call that outlasts the time left are all observations:
    their message says what was wrong, and the other calls still run.

    Args:
        calls: The calls as the model wrote them.
        tools: The tools on offer, by name.
        context: What the tools may know.
        time_left_s: Real seconds until the episode's limit, after which a call is stopped; by default the context's.
        max_chars: Bound of each result's text; what is longer is cut, with a note.
        max_calls: Calls beyond this number are refused.

    Raises:
        CallsLostError: A call raised ``RetryableError``. The other calls are waited for first, so that it is
            known what they cost.
        UserError: A tool needs the user to act. The calls still running are cancelled.
    """
    if time_left_s is not None:
        context = replace(context, time_left_s=time_left_s)
    jobs = [
        _carry_out_one(call, tools, context, max_chars) if index < max_calls else _refuse_surplus(call, max_calls)
        for index, call in enumerate(calls)
    ]
    # One call is the common case, and needs no task of its own.
    results = [await jobs[0]] if len(jobs) == 1 else await _all(jobs)
    records = tuple(result for result in results if isinstance(result, CallRecord))
    failures = [result for result in results if isinstance(result, RetryableError)]
    if failures:
        charges = tuple(charge for failure in failures for charge in getattr(failure, "charges", ()))
        waits = [failure.retry_after_s for failure in failures if failure.retry_after_s is not None]
        raise CallsLostError(
            describe_error(failures[0]), calls=records, charges=charges, retry_after_s=max(waits, default=None)
        ) from failures[0]
    messages = tuple(_message(record) for record in records)
    return Carried(records, messages, max((record.latency_s for record in records), default=0.0))


async def _all(jobs: Sequence[Coroutine[Any, Any, CallRecord | RetryableError]]) -> list[CallRecord | RetryableError]:
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _carry_out_one(
    call: ToolCall, tools: Mapping[str, Tool], context: CallContext, max_chars: int
) -> CallRecord | RetryableError:
    if call.error is not None:
        return _refused(call, call.error)
    tool = tools.get(call.name)
    if tool is None:
        return _refused(call, _unknown_tool(call.name, tools))
    began = time.perf_counter()
    try:
        result = await _call(tool, call, context)
    except RetryableError as failure:
        return failure
    latency_s = time.perf_counter() - began if result.latency_s is None else result.latency_s
    content = shorten(result.content, max_chars)
    error = None if result.error is None else shorten(result.error, _MAX_ERROR_CHARS)
    if content is not result.content or error is not result.error:
        result = replace(result, content=content, error=error)
    return CallRecord(call, result, latency_s)


async def _call(tool: Tool, call: ToolCall, context: CallContext) -> ToolResult:
    """One call whose failure is a result. Only a retryable failure, a user's error and a cancellation leave here."""
    try:
        async with asyncio.timeout(context.time_left_s) as clock:
            return await tool.call(call.arguments, context)
    except (RetryableError, UserError):
        raise
    except ModelFacingError as error:
        words = shorten(str(error), _MAX_ERROR_CHARS)
        return _failed(words, reason=words, error=error)
    except Exception as error:
        if isinstance(error, TimeoutError) and clock.expired():
            words = "the call was stopped: the time allowed for this conversation is used up"
            return _failed(words, reason="out of time", error=error)
        logger.warning("the tool %s broke:\n%s", call.name, describe_traceback(error))
        # The message of an unexpected error is for whoever maintains the tool; it may hold what no model should see.
        words = f"the tool {call.name} broke ({type(error).__name__}); try other arguments or another tool"
        return _failed(words, reason=describe_error(error), error=error)


def _failed(words: str, *, reason: str, error: Exception) -> ToolResult:
    return ToolResult(f"Error: {words}", charges=tuple(getattr(error, "charges", ())), error=reason)


def _refused(call: ToolCall, words: str) -> CallRecord:
    words = shorten(words, _MAX_ERROR_CHARS)
    # Marked on the call too, so that what never ran is not counted as a call of the tool.
    call = call if call.error is not None else replace(call, error=words)
    return CallRecord(call, ToolResult(f"Error: {words}", latency_s=0.0, error=words), 0.0)


async def _refuse_surplus(call: ToolCall, max_calls: int) -> CallRecord:
    return _refused(call, f"at most {max_calls} calls are carried out in one turn; this one was not")


def _unknown_tool(name: str, tools: Mapping[str, Tool]) -> str:
    names = sorted(tools)
    offer = ", ".join(names[:_MAX_NAMES_SHOWN]) + (", …" if len(names) > _MAX_NAMES_SHOWN else "")
    return f"there is no tool {shorten(name, 80)!r}; the tools are: {offer or '(none)'}"


def _message(record: CallRecord) -> Message:
    return Message("tool", record.result.content, tool_call_id=record.call.id, name=record.call.name or None)
