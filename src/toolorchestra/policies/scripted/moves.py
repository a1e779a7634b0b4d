"""The two moves of every scripted policy: call tools, or finish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.trajectory import Action

SUBMIT = "submit_answer"
"""The tool that ends an episode in an environment's submit mode. Its parameter ``result`` takes a result's number."""


def act(message: Message) -> Action:
    """The action that a message is: free, and decided in no time."""
    reason = "tool_calls" if message.tool_calls else "stop"
    return Action(message, latency_s=0.0, finish_reason=reason)


def call_tools(history: Sequence[Message], calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Action:
    """Call tools, given as pairs of name and arguments; the ids are unique within the conversation."""
    turn = len(history)
    made = tuple(
        ToolCall(f"call_{turn}_{index}", name, dict(arguments)) for index, (name, arguments) in enumerate(calls)
    )
    return act(Message("assistant", tool_calls=made))


class Result(NamedTuple):
    """What a call returned, as the policy sees it.

    Attributes:
        number: By which it can be submitted, from 1.
        content: Its text, without the number that environments put before it.
    """

    number: int
    content: str


def results(history: Sequence[Message]) -> tuple[Result, ...]:
    """The tool results so far, in order. A submission that was refused counts, but is no result."""
    answered = enumerate((message for message in history if message.role == "tool"), start=1)
    return tuple(
        Result(number, message.content.removeprefix(f"[{number}] "))
        for number, message in answered
        if message.name != SUBMIT
    )


def finish(history: Sequence[Message], tools: Sequence[ToolSpec], *, choose: int | None = None) -> Action:
    """End the episode with one of the results.

    Where the environment offers ``submit_answer``, it is called with the result's number; else the result's content is
    the answer.

    Args:
        history: The conversation.
        tools: The tools on offer.
        choose: Number of the result; the last one by default and where there is no such result.
    """
    contents = {result.number: result.content for result in results(history)}
    number = choose if choose in contents else max(contents, default=None)
    offered = _numbers(next((tool for tool in tools if tool.name == SUBMIT), None))
    if offered:
        return call_tools(history, [(SUBMIT, {"result": str(number) if str(number) in offered else offered[-1]})])
    return act(Message("assistant", "" if number is None else contents[number]))


def on_offer(tools: Sequence[ToolSpec]) -> dict[str, ToolSpec]:
    """The tools that do work, by name: all but ``submit_answer``."""
    return {tool.name: tool for tool in tools if tool.name != SUBMIT}


def _numbers(spec: ToolSpec | None) -> tuple[str, ...]:
    if spec is None:
        return ()
    values = spec.parameters.get("properties", {}).get("result", {}).get("enum", ())
    return tuple(value for value in values if isinstance(value, str))
