"""Thinking and tool calls that a server left in the text, because it has no parser for them or its parser gave up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from toolorchestra.messages import Message, ToolSpec
from toolorchestra.parsing import parse_output

_TAGS = ("<think>", "</think>", "<tool_call>")


class Unpacked(NamedTuple):
    """A message with nothing left in its text, and how its generation ended."""

    message: Message
    finish_reason: str


def unpack_text(message: Message, tools: Sequence[ToolSpec], *, finish_reason: str, id_prefix: str) -> Unpacked:
    """Move ``<think>`` and ``<tool_call>`` of a message's content to where they belong.

    Some servers return a call that they cannot read as plain text; taken as it is, it would pass for an answer. Here it
    becomes a malformed call. Where the server did read calls, those stand and calls in the text are dropped.

    Args:
        message: The assistant's message.
        tools: The tools on offer.
        finish_reason: How the generation ended.
        id_prefix: Of the calls' ids.
    """
    if not any(tag in message.content for tag in _TAGS):
        return Unpacked(message, finish_reason)
    parsed = parse_output(message.content, tools, finish_reason=finish_reason, id_prefix=id_prefix)
    reasoning = "\n".join(filter(None, (message.reasoning, parsed.reasoning)))
    calls = message.tool_calls or parsed.calls
    unpacked = replace(message, content=parsed.content, reasoning=reasoning, tool_calls=calls)
    return Unpacked(unpacked, parsed.finish_reason)
