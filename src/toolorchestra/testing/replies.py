"""What the mock server sends: a good reply, or a fault."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class MockReply:
    """A well-formed chat completion.

    Attributes:
        content: The assistant's text; ``None`` is sent as ``null``.
        tool_calls: Pairs of a tool's name and its arguments: an object, or a string that is sent as it is.
        reasoning: Sent as ``reasoning_content``, as vLLM's reasoning parsers do.
        usage: The usage object as the wire has it; ``None`` leaves it out.
        finish_reason: ``None`` derives it: ``tool_calls`` where there are calls, else ``stop``.
        delay_s: Seconds to wait before answering.
        top: Further keys of the reply, such as ``prompt_token_ids``.
        choice: Further keys of its only choice, such as ``token_ids`` or ``logprobs``.
    """

    content: str | None = None
    tool_calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    reasoning: str = ""
    usage: Mapping[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 5})
    finish_reason: str | None = None
    delay_s: float = 0.0
    top: Mapping[str, Any] = field(default_factory=dict)
    choice: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self, *, model: str, number: int) -> dict[str, Any]:
        """The reply as an OpenAI server sends it.

        Args:
            model: The model's name, echoed.
            number: Number of the request; it makes the ids unique.
        """
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [
                _call(f"call_{number}_{index}", *call) for index, call in enumerate(self.tool_calls)
            ]
        finish = self.finish_reason or ("tool_calls" if self.tool_calls else "stop")
        choice = {"index": 0, "message": message, "finish_reason": finish, **self.choice}
        body = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": model}
        usage = {} if self.usage is None else {"usage": dict(self.usage)}
        return {**body, "choices": [choice], **usage, **self.top}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        status: The HTTP status.
        body: An object (sent as JSON), or text that is sent as it is.
        headers: Extra headers, such as ``Retry-After``.
        delay_s: Seconds to wait first.
        broken: ``torn`` announces the whole body, sends half of it and closes; ``disconnect`` closes without an answer.
    """

    status: int = 200
    body: Mapping[str, Any] | str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    broken: Literal["", "torn", "disconnect"] = ""

    @classmethod
    def error(cls, status: int, message: str, *, code: str | None = None, **headers: str) -> Fault:
        """An error as OpenAI words it. Underscores in header names become dashes: ``Retry_After="1"``."""
        body = {"error": {"message": message, "type": "error", "code": code}}
        return cls(status, body, {name.replace("_", "-"): value for name, value in headers.items()})

    def payload(self) -> bytes:
        """The body's bytes."""
        return (self.body if isinstance(self.body, str) else json.dumps(dict(self.body))).encode()


Script = Callable[[dict[str, Any]], MockReply | Fault] | Sequence[MockReply | Fault]
"""A function of the request's JSON, or replies that are used up in the order of arrival."""


def _call(call_id: str, name: str, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(dict(arguments))
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
