"""Between our types and the body of ``/chat/completions``. Pure functions; what a server sends is not trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolorchestra.errors import UserError
from toolorchestra.messages import Message, ToolCall, ToolSpec, message_from_wire
from toolorchestra.models.base import Sampling
from toolorchestra.models.text import unpack_text
from toolorchestra.parsing import check_arguments

_FINISH = {"tool_calls": "tool_calls", "function_call": "tool_calls", "length": "length", "max_tokens": "length"}
_UNREADABLE_NAME = "malformed_call"
_SHOWN_TOOLS = 30


class UnreadableReplyError(ValueError):
    """A reply with status 200 that is no chat completion."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A chat completion as read, without what it cost.

    Attributes:
        message: The assistant's message; its calls fit their tools' schemas or carry an error.
        finish_reason: ``stop``, ``tool_calls`` or ``length``.
        model: As the server names it.
        prompt_ids: Where the server gives them.
        completion_ids: Where the server gives them.
        logprobs: Where the server gives them.
    """

    message: Message
    finish_reason: str
    model: str = ""
    prompt_ids: tuple[int, ...] | None = None
    completion_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None


def message_to_wire(message: Message) -> dict[str, Any]:
    """A message that every server accepts.

    Servers decode the arguments of earlier calls and refuse the whole conversation if that fails, so one malformed
    call would break every later turn. Such a call is sent with empty arguments; the tool message that answers it
    says what was wrong.
    """
    wire = message.to_wire()
    for call, sent in zip(message.tool_calls, wire.get("tool_calls", ()), strict=True):
        if call.error is not None and not _is_object(call.raw):
            sent["function"]["arguments"] = "{}"
        if not call.name:
            sent["function"]["name"] = _UNREADABLE_NAME
    return wire


def sampling_to_wire(sampling: Sampling, max_tokens_key: str) -> dict[str, Any]:
    """The settings that are set, by their names on the wire."""
    values = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        max_tokens_key: sampling.max_tokens,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
    }
    return {key: value for key, value in values.items() if value is not None}


def read_reply(
    body: Mapping[str, Any], tools: Sequence[ToolSpec], *, turn: int = 0, parse_text_calls: bool = False
) -> Reply:
    """Read the first choice of a reply.

    Args:
        body: The decoded body.
        tools: The tools that were on offer; calls are checked against them.
        turn: Number of messages so far, which makes ids unique where the server gives none or gives one twice.
        parse_text_calls: Whether ``<tool_call>`` and ``<think>`` in the text are parsed when the server did not.

    Raises:
        UnreadableReplyError: There is no choice, or its message is not one.
    """
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping):
        raise UnreadableReplyError("the reply has no choices")
    finish = _FINISH.get(str(choice.get("finish_reason")), "stop")
    message = _message(choice.get("message"), turn)
    if parse_text_calls:
        message, finish = unpack_text(message, tools, finish_reason=finish, id_prefix=f"call_{turn}")
    message = replace(message, tool_calls=_checked(message.tool_calls, tools, turn))
    if finish != "length":
        finish = "tool_calls" if message.tool_calls else "stop"
    model = body.get("model")
    return Reply(
        message=message,
        finish_reason=finish,
        model=model if isinstance(model, str) else "",
        prompt_ids=_ids(body.get("prompt_token_ids", choice.get("prompt_token_ids"))),
        completion_ids=_ids(choice.get("token_ids")),
        logprobs=_logprobs(choice.get("logprobs")),
    )


def _message(wire: Any, turn: int) -> Message:
    if not isinstance(wire, Mapping):
        raise UnreadableReplyError("the reply's choice has no message")
    calls = wire.get("tool_calls") or ()
    if not isinstance(calls, Sequence) or not all(_looks_like_call(call) for call in calls):
        raise UnreadableReplyError("the reply's tool_calls are not a list of calls")
    named = [{**call, "id": call.get("id") or f"call_{turn}_{index}"} for index, call in enumerate(calls)]
    reasoning = wire.get("reasoning_content") or wire.get("reasoning")
    try:
        message = message_from_wire(
            {
                "role": "assistant",
                "content": wire.get("content") or wire.get("refusal"),
                "reasoning": reasoning if isinstance(reasoning, str) else "",
                "tool_calls": named,
            }
        )
    except UserError as error:
        raise UnreadableReplyError(str(error)) from None
    return message


def _looks_like_call(call: Any) -> bool:
    if not isinstance(call, Mapping) or not isinstance(call.get("function"), Mapping):
        return False
    return isinstance(call["function"].get("name") or "", str) and isinstance(call.get("id") or "", str)


def _checked(calls: Sequence[ToolCall], tools: Sequence[ToolSpec], turn: int) -> tuple[ToolCall, ...]:
    specs = {spec.name: spec for spec in tools}
    seen: set[str] = set()
    checked = []
    for index, call in enumerate(calls):
        unique = replace(call, id=f"call_{turn}_{index}") if call.id in seen else call
        seen.add(unique.id)
        checked.append(_check(unique, specs))
    return tuple(checked)


def _check(call: ToolCall, specs: Mapping[str, ToolSpec]) -> ToolCall:
    if call.error is not None:
        return call
    spec = specs.get(call.name)
    if spec is not None:
        checked = check_arguments(call, spec)
    else:
        offer = f"the tools are: {', '.join(list(specs)[:_SHOWN_TOOLS])}" if specs else "no tool is on offer"
        checked = replace(call, error=f"there is no tool {call.name[:80]!r}; {offer}")
    if checked.error is None:
        return checked
    return replace(checked, raw=checked.raw or json.dumps(dict(call.arguments), ensure_ascii=False))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _ids(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list) and all(type(item) is int for item in value):
        return tuple(value)
    return None


def _logprobs(value: Any) -> tuple[float, ...] | None:
    content = value.get("content") if isinstance(value, Mapping) else None
    if not isinstance(content, list):
        return None
    numbers = [item.get("logprob") for item in content if isinstance(item, Mapping)]
    known = tuple(float(number) for number in numbers if isinstance(number, (int, float)))
    return known if len(known) == len(content) else None
