"""Chat messages, tool calls and tool specs: the OpenAI wire format, typed.

Inside, a call's arguments are an object; on the wire they are a JSON string. The conversion happens here and nowhere
else, so that no template ever sees (and no model learns to imitate) a doubly encoded string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from toolorchestra.errors import UserError

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that a model asked for.

    Attributes:
        id: Ties the result to the call; unique within a conversation.
        name: The tool's name, as written (``""`` where not even a name could be read).
        arguments: The arguments as an object, already checked against the tool's schema unless ``error`` is set.
        error: For a malformed call, what is wrong with it, in words for the model. Such a call is never run.
        raw: What the model wrote, kept only where no arguments could be read from it.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    raw: str = ""

    def to_wire(self) -> dict[str, Any]:
        """The OpenAI form, with the arguments as a JSON string."""
        arguments = self.raw or json.dumps(dict(self.arguments), ensure_ascii=False)
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}

    def for_template(self) -> dict[str, Any]:
        """The form that chat templates read, with the arguments as an object."""
        arguments: Any = self.raw or dict(self.arguments)
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: Who speaks.
        content: What everybody may read.
        reasoning: The model's thinking, kept apart from the content and never sent to another model.
        tool_calls: The calls of an assistant message.
        tool_call_id: For a tool message, the call that it answers.
        name: For a tool message, the tool.
    """

    role: Role
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """The OpenAI form. The content of a message that only calls tools is ``null``, as the API has it."""
        wire: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            wire["content"] = self.content or None
            wire["tool_calls"] = [call.to_wire() for call in self.tool_calls]
        return self._with_names(wire)

    def for_template(self) -> dict[str, Any]:
        """The form for a chat template: arguments as objects, reasoning under ``reasoning_content``."""
        wire: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.reasoning:
            wire["reasoning_content"] = self.reasoning
        if self.tool_calls:
            wire["tool_calls"] = [call.for_template() for call in self.tool_calls]
        return self._with_names(wire)

    def _with_names(self, wire: dict[str, Any]) -> dict[str, Any]:
        if self.tool_call_id is not None:
            wire["tool_call_id"] = self.tool_call_id
        if self.name is not None:
            wire["name"] = self.name
        return wire


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told about a tool.

    Attributes:
        name: Letters, digits, ``_`` and ``-``.
        description: What it is good at, what it costs and how long it takes.
        parameters: A JSON Schema of an object.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    def to_wire(self) -> dict[str, Any]:
        """The OpenAI form."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


def message_from_wire(wire: Mapping[str, Any]) -> Message:
    """Read one message of the OpenAI format.

    A string of arguments is decoded exactly once. Arguments that are no JSON object make the call malformed (its
    ``error`` says so); they do not raise, since they are a model's output.

    Raises:
        UserError: The role is unknown, or the content is neither text, a list of text parts nor null.
    """
    role = wire.get("role")
    if role not in ROLES:
        raise UserError(f"a message has the role {role!r}; use one of {', '.join(ROLES)}")
    calls = tuple(_call_from_wire(call, index) for index, call in enumerate(wire.get("tool_calls") or ()))
    return Message(
        role=cast(Role, role),
        content=_text(wire.get("content")),
        reasoning=wire.get("reasoning_content") or wire.get("reasoning") or "",
        tool_calls=calls,
        tool_call_id=wire.get("tool_call_id"),
        name=wire.get("name"),
    )


def messages_from_wire(wires: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Read a conversation of the OpenAI format."""
    return tuple(message_from_wire(wire) for wire in wires)


def _call_from_wire(wire: Mapping[str, Any], index: int) -> ToolCall:
    function = wire.get("function") or {}
    name = function.get("name") or ""
    call_id = wire.get("id") or f"call_{index}"
    arguments = function.get("arguments")
    raw = arguments if isinstance(arguments, str) else ""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            return ToolCall(call_id, name, error=f"the arguments are not valid JSON: {error}", raw=raw)
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        kind = type(arguments).__name__
        return ToolCall(call_id, name, error=f"the arguments must be a JSON object, not {kind}", raw=raw)
    return ToolCall(call_id, name, dict(arguments))


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = [part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
        if len(parts) == len(content) and all(isinstance(part, str) for part in parts):
            return "".join(cast(list[str], parts))
    raise UserError("a message's content must be text, a list of text parts, or null")
