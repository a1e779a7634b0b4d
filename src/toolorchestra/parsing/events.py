"""What a parsed stream reports, piece by piece, and what the pieces are together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolorchestra.messages import Message, ToolCall


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More of what everybody may read."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class AllWasReasoning:
    """All that was reported so far, calls included, turned out to be thinking, whose text this is.

    It occurs at most once, where ``</think>`` comes without its opening tag because the prompt had ended with it. A
    caller that knows its prompt passes ``thinking=True`` and never sees this event.
    """

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A complete call begins."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of a call's arguments. A call's pieces together are its arguments as valid JSON, ``{}`` for none."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """A call ends. ``call`` is all of it; a malformed one has ``error`` set."""

    index: int
    call: ToolCall


StreamEvent = ContentDelta | ReasoningDelta | AllWasReasoning | CallStart | CallArguments | CallEnd


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """What a model's text says.

    Attributes:
        reasoning: The thinking, without its tags and outer white space.
        content: The text outside all tags, without outer white space.
        calls: The tool calls in order, malformed ones (with ``error`` set) among them.
        warnings: What was accepted although it was not quite the format.
        finish_reason: ``tool_calls`` where a generation that ended by itself made calls, else as given.
    """

    reasoning: str = ""
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    warnings: tuple[str, ...] = ()
    finish_reason: str = "stop"

    def message(self) -> Message:
        """The assistant's message."""
        return Message("assistant", self.content, self.reasoning, self.calls)


def collect(events: Iterable[StreamEvent]) -> ParsedOutput:
    """Put a stream's events together (warnings and the finish reason are not among them)."""
    reasoning: list[str] = []
    content: list[str] = []
    calls: list[ToolCall] = []
    for event in events:
        match event:
            case ContentDelta(text):
                content.append(text)
            case ReasoningDelta(text):
                reasoning.append(text)
            case CallEnd(_, call):
                calls.append(call)
            case AllWasReasoning(text):
                reasoning, content, calls = [text], [], []
            case CallStart() | CallArguments():
                pass
    return ParsedOutput("".join(reasoning), "".join(content), tuple(calls))
