"""One decoded ``{"name": …, "arguments": …}`` object to a checked tool call."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolorchestra.messages import ToolCall, ToolSpec
from toolorchestra.parsing.call_json import CallSyntaxError, ObjectScanner, decode_object, kind_of
from toolorchestra.parsing.schema import check_arguments

_NAME = re.compile(r"""["']name["']\s*:\s*["']([^"'\n]{1,64})["']""")
_FORMAT = 'write <tool_call>{"name": "...", "arguments": {...}}</tool_call>'
_SHOWN_TOOLS = 30


def malformed_call(call_id: str, raw: str, problem: str) -> ToolCall:
    """A call that cannot be read, with a name if one can be made out and the problem in words for the model."""
    named = _NAME.search(raw)
    error = f"this tool call is malformed: {problem}; {_FORMAT}"
    return ToolCall(call_id, named[1] if named else "", error=error, raw=raw.strip())


def read_call(call_id: str, value: Mapping[str, Any], body: str, tools: Mapping[str, ToolSpec]) -> ToolCall:
    """The call that a decoded object means.

    Args:
        call_id: Its id.
        value: The object: ``name``, and ``arguments`` or ``parameters`` as an object or as a string of one.
        body: The object as written, for the record of a malformed call.
        tools: The tools on offer by name; without any, only the form is checked.

    Returns:
        The call, with ``error`` set where it names no known tool or the arguments do not fit.
    """
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return malformed_call(call_id, body, 'it has no "name"')
    try:
        arguments = _arguments(value)
    except CallSyntaxError as error:
        return malformed_call(call_id, body, str(error))
    call = ToolCall(call_id, name, arguments)
    if not tools:
        return call
    if name not in tools:
        return replace(call, error=_unknown(name, tuple(tools)))
    return check_arguments(call, tools[name])


def _arguments(value: Mapping[str, Any]) -> dict[str, Any]:
    stray = sorted(set(value) - {"name", "id", "type", "arguments", "parameters"})
    if "arguments" not in value and "parameters" not in value and stray:
        raise CallSyntaxError(f'the key {stray[0][:80]!r} stands outside "arguments"')
    arguments = value.get("arguments", value.get("parameters"))
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        return _decode_once(arguments)
    if not isinstance(arguments, dict):
        raise CallSyntaxError(f'"arguments" must be an object, not {kind_of(arguments)}')
    return arguments


def _decode_once(text: str) -> dict[str, Any]:
    """Arguments that were written as a string: decoded once, so that a string inside a string is an error."""
    if not text.strip():
        return {}
    try:
        end = ObjectScanner().scan(text, 0)  # bounds the depth
        if end is None or text[end:].strip():
            raise CallSyntaxError("it must be one JSON object")
        return decode_object(text)
    except CallSyntaxError as error:
        raise CallSyntaxError(f'"arguments" is a string that holds no arguments: {error}') from None


def _unknown(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name[:64], known, n=3, cutoff=0.5)
    meant = f"; did you mean {' or '.join(near)}?" if near else "."
    more = f" and {len(known) - _SHOWN_TOOLS} more" if len(known) > _SHOWN_TOOLS else ""
    return f"there is no tool {name[:64]!r}{meant} The tools are: {', '.join(known[:_SHOWN_TOOLS])}{more}"
