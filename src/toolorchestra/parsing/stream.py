"""Model text to reasoning, tool calls and content: whole or streamed, the same result.

The format is that of Hermes and Qwen: ``<think>…</think>``, then text and ``<tool_call>{"name": …, "arguments": {…}}
</tool_call>`` blocks. There is one incremental scanner; :func:`parse_output` feeds it the whole text at once, so the
streamed parse cannot differ from the whole parse. Every character is looked at a bounded number of times.

A call is reported when it is complete and checked, never in halves: a torn stream cannot become a call, and what a
client receives are the arguments that fit the schema. Some models write the arguments before the name, so holding the
call back costs little.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from toolorchestra.messages import ToolCall, ToolSpec
from toolorchestra.parsing.call_json import CallSyntaxError, ObjectScanner, decode_object, problem_of, well_formed
from toolorchestra.parsing.events import (
    AllWasReasoning,
    CallArguments,
    CallEnd,
    CallStart,
    ContentDelta,
    ParsedOutput,
    ReasoningDelta,
    StreamEvent,
    collect,
)
from toolorchestra.parsing.reading import malformed_call, read_call

MAX_CALLS = 128
"""Calls of one output that are carried out, at most; further ones are malformed."""
NORMAL_ENDS = frozenset({"stop", "tool_calls"})
"""Finish reasons of a generation that ended by itself; after any other, what is unfinished was cut."""

_OPEN, _CLOSE, _THINK, _END_THINK = "<tool_call>", "</tool_call>", "<think>", "</think>"


def parse_output(
    text: str,
    tools: Sequence[ToolSpec] = (),
    *,
    finish_reason: str = "stop",
    id_prefix: str = "call",
    thinking: bool = False,
) -> ParsedOutput:
    """Parse a model's whole text.

    Args:
        text: What was generated, special tokens of the tags included.
        tools: The tools on offer. Names and arguments are checked against them; without any, only the form is.
        finish_reason: ``stop`` or ``tool_calls`` for a generation that ended by itself; after any other (``length``)
            an unfinished call is malformed.
        id_prefix: Calls are numbered ``call_0``, ``call_1``, … with it; pass another for every turn of a conversation.
        thinking: Whether the prompt ended with ``<think>``.
    """
    parser = StreamParser(tools, id_prefix=id_prefix, thinking=thinking)
    events = [*parser.feed(text), *parser.finish(finish_reason)]
    parsed = collect(events)
    ended = "tool_calls" if parsed.calls and finish_reason in NORMAL_ENDS else finish_reason
    return replace(parsed, warnings=parser.warnings, finish_reason=ended)


class StreamParser:
    """Parses text that arrives in pieces. One parser per output; the arguments are those of :func:`parse_output`."""

    def __init__(self, tools: Sequence[ToolSpec] = (), *, id_prefix: str = "call", thinking: bool = False) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._id_prefix = id_prefix
        self._count = 0
        self._events: list[StreamEvent] = []
        self._warnings: dict[str, None] = {}
        self._state: Literal["text", "object", "after", "junk"] = "text"
        self._surrogate = ""  # the first half of a pair
        self._tail = ""  # perhaps the start of a tag
        self._thinking = thinking
        self._settled = thinking  # whether it is known where the thinking begins
        self._all: list[str] = []  # everything, until that is settled
        self._content = _Trimmed()
        self._reasoning = _Trimmed()
        self._held: list[_Held] = []  # calls inside the thinking, real ones if nothing follows them
        self._scanner = ObjectScanner()
        self._opening = ""  # the tag before the current block, if it has its own
        self._block: list[str] = []  # the current block's text from earlier pieces
        self._start = 0  # where the rest of it begins in this piece
        self._body = ""  # a complete object, not yet followed by anything
        self._value: dict[str, Any] = {}
        self._after: list[str] = []  # what stands between it and the closing tag
        self._problem = ""  # why the current block is junk, where its text does not say that
        self._unclosed = False  # whether the last call had no closing tag

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was accepted so far although it was not quite the format, each once."""
        return tuple(self._warnings)

    def feed(self, delta: str) -> list[StreamEvent]:
        """Take the next piece of text, of any length, and return what it completes."""
        text = self._surrogate + delta
        self._surrogate = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        self._take(well_formed(text[: len(text) - len(self._surrogate)]), final=False)
        return self._give_events()

    def finish(self, finish_reason: str = "stop") -> list[StreamEvent]:
        """End the text and return what was held back. ``finish_reason`` tells a normal end from a cut."""
        normal = finish_reason in NORMAL_ENDS
        self._take(well_formed(self._surrogate), final=True)
        self._surrogate = ""
        while self._state != "text":
            self._end_block(normal=normal)
        if self._thinking:
            self._end_open_thinking(normal=normal)
        return self._give_events()

    def _give_events(self) -> list[StreamEvent]:
        events, self._events = self._events, []
        return events

    def _warn(self, warning: str) -> None:
        self._warnings[warning] = None

    def _take(self, text: str, *, final: bool) -> None:
        if not self._settled:
            self._all.append(text)
        text, self._tail = self._tail + text, ""
        self._run(text, 0, final=final)

    def _run(self, text: str, position: int, *, final: bool) -> None:
        """Consume the text; what must wait for more is put aside by the step that finds it."""
        while position < len(text):
            if self._state == "text":
                position = self._text_step(text, position, final=final)
            elif self._state == "junk":
                position = self._junk_step(text, position, final=final)
            elif self._state == "after":
                position = self._after_step(text, position, final=final)
            else:
                text, position = self._object_step(text, position)
        if self._state == "object":
            self._block.append(text[self._start :])
            self._start = 0

    # Text outside calls

    def _text_step(self, text: str, position: int, *, final: bool) -> int:
        found = _find_tag(text, position, (_OPEN, _THINK, _END_THINK), final=final)
        if found.start > position:
            self._text(text[position : found.start])
        if found.tag is None:
            self._tail = text[found.start :]
            return len(text)
        end = found.start + len(found.tag)
        if found.tag == _OPEN:
            self._begin_block(_OPEN, end)
        elif found.tag == _THINK:
            self._think_tag()
        else:
            self._end_think_tag(len(text) - found.start)
        return end

    def _text(self, text: str) -> None:
        if not self._thinking:
            self._report_text(self._content, ContentDelta, text)
        elif self._held and text.isspace():
            self._held.append(_Held(text))
        else:
            self._release_held()
            self._report_text(self._reasoning, ReasoningDelta, text)

    def _report_text(self, sink: _Trimmed, event: type[ContentDelta | ReasoningDelta], text: str) -> None:
        if delta := sink.push(text):
            self._events.append(event(delta))

    def _think_tag(self) -> None:
        sink = self._reasoning if self._thinking else self._content
        if sink.started:  # in running text it is only mentioned
            self._text(_THINK)
            return
        self._thinking = True
        self._settle()

    def _end_think_tag(self, left: int) -> None:
        if self._thinking:
            self._release_held()
            self._thinking = False
        elif self._settled:
            self._text(_END_THINK)
        else:
            everything = "".join(self._all)
            before = everything[: len(everything) - left].strip()
            self._content, self._reasoning = _Trimmed(), _Trimmed()
            self._reasoning.push(before)
            self._warnings.clear()
            self._events.append(AllWasReasoning(before))
        self._settle()

    def _settle(self) -> None:
        self._settled = True
        self._all.clear()

    def _release_held(self) -> None:
        """Something follows the calls inside the thinking, so they were only thought of."""
        held, self._held = self._held, []
        for part in held:
            self._report_text(self._reasoning, ReasoningDelta, part.text)

    # Calls

    def _begin_block(self, opening: str, position: int) -> None:
        self._state = "object"
        self._scanner = ObjectScanner()
        self._opening = opening
        self._block = []
        self._start = position

    def _object_step(self, text: str, position: int) -> tuple[str, int]:
        try:
            end = self._scanner.scan(text, position)
            if end is None:
                return text, len(text)
            self._body = "".join(self._block) + text[self._start : end]
            self._value = decode_object(self._body)
        except CallSyntaxError:
            return self._begin_junk(text)
        self._state = "after"
        self._after = []
        return text, end

    def _after_step(self, text: str, position: int, *, final: bool) -> int:
        start = position
        while position < len(text) and text[position].isspace():
            position += 1
        self._after.append(text[start:position])
        rest = text[position : position + len(_CLOSE)]
        if rest == _CLOSE:
            self._after.append(_CLOSE)
            self._accept(closed=True)
            return position + len(_CLOSE)
        if _CLOSE.startswith(rest):  # nothing, or perhaps the closing tag's start
            self._tail = "" if final else rest
            self._after.append(rest if final else "")
            return len(text)
        if rest[0] == "}":
            self._warn("a tool call had a closing brace too many")
            self._after.append("}")
            return position + 1
        self._accept(closed=False)
        if rest[0] == "{":
            self._begin_block("", position)
        return position

    def _accept(self, *, closed: bool) -> None:
        self._state = "text"
        self._unclosed = not closed
        if not closed:
            self._warn(f"a tool call was not closed by {_CLOSE}")
        if self._thinking:
            self._held.append(_Held(self._opening + self._body + "".join(self._after), self._value, self._body))
        else:
            self._report_call(self._read(self._value, self._body))

    def _begin_junk(self, text: str, problem: str = "") -> tuple[str, int]:
        """Go back to the start of a block that is no call, to end it at the first tag instead."""
        self._state = "junk"
        self._problem = problem
        if not self._block:
            return text, self._start
        text = "".join(self._block) + text[self._start :]
        self._block = []
        return text, 0

    def _junk_step(self, text: str, position: int, *, final: bool) -> int:
        found = _find_tag(text, position, (_OPEN, _CLOSE, _END_THINK), final=final)
        self._block.append(text[position : found.start])
        if found.tag is None:
            self._tail = text[found.start :]
            return len(text)
        self._end_junk(found.tag)
        return found.start + (len(_CLOSE) if found.tag == _CLOSE else 0)

    def _end_junk(self, tag: str) -> None:
        self._state = "text"
        raw = "".join(self._block)
        self._block = []
        if self._thinking:
            self._text(self._opening + raw + (_CLOSE if tag == _CLOSE else ""))
        elif not raw.strip() and (self._unclosed or tag == _OPEN):
            self._warn(f"a {_OPEN} with nothing after it was left out")
        else:
            problem = ("" if tag else self._problem) or problem_of(raw) or "it is followed by something else"
            self._report_call(malformed_call(self._next_id(), raw, problem))
        self._unclosed = False

    def _end_block(self, *, normal: bool) -> None:
        """The text ends inside a block."""
        if self._state == "junk":
            self._end_junk("")
        elif self._state == "object":
            problem = "" if normal else "the output was cut off inside it"
            self._run(*self._begin_junk("", problem), final=True)
        elif normal:
            self._accept(closed=False)
        else:
            self._block = [self._body]
            self._problem = f"the output was cut off before {_CLOSE}"
            self._end_junk("")

    def _end_open_thinking(self, *, normal: bool) -> None:
        calls = [part for part in self._held if part.value is not None]
        if not (normal and calls):
            self._warn("the thinking was not ended")
            self._release_held()
            return
        self._warn("a tool call at the end of thinking that was not ended was taken as meant")
        self._held = []
        for part in calls:
            self._report_call(self._read(part.value or {}, part.body))

    def _next_id(self) -> str:
        return f"{self._id_prefix}_{self._count}"

    def _read(self, value: dict[str, Any], body: str) -> ToolCall:
        if self._count >= MAX_CALLS:
            return malformed_call(self._next_id(), body, f"one output may hold at most {MAX_CALLS} calls")
        return read_call(self._next_id(), value, body, self._tools)

    def _report_call(self, call: ToolCall) -> None:
        index = self._count
        self._count += 1
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        self._events += [CallStart(index, call.id, call.name), CallArguments(index, arguments), CallEnd(index, call)]


class _Trimmed:
    """Text without outer white space, in pieces: white space waits until something follows it."""

    def __init__(self) -> None:
        self.started = False
        self._space: list[str] = []

    def push(self, text: str) -> str:
        if not self.started:
            text = text.lstrip()
        body = text.rstrip()
        space = text[len(body) :]
        if not body:
            self._space.append(space)
            return ""
        self.started = True
        ready = "".join(self._space) + body
        self._space = [space]
        return ready


@dataclass(frozen=True, slots=True)
class _Held:
    """Text inside the thinking that is a call, or the white space after one."""

    text: str
    value: dict[str, Any] | None = None
    body: str = ""


class _Found(NamedTuple):
    start: int
    tag: str | None


def _find_tag(text: str, position: int, tags: tuple[str, ...], *, final: bool) -> _Found:
    """The next whole tag, or (with no tag) where text begins that may become one, at most the end of the text."""
    while (start := text.find("<", position)) >= 0:
        for tag in tags:
            if text.startswith(tag, start):
                return _Found(start, tag)
        if not final and len(text) - start < len(_CLOSE) and any(tag.startswith(text[start:]) for tag in tags):
            return _Found(start, None)
        position = start + 1
    return _Found(len(text), None)
