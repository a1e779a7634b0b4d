"""Conversations as tokens: the prompt, and what stands between one turn and the next.

Nothing is decoded and encoded again. A format only ever renders *new* messages; what was sampled stays as sampled.
Text of users and tools is encoded so that it cannot contain the tokens that delimit messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from toolorchestra.errors import UserError
from toolorchestra.messages import Message, ToolSpec


class ChatFormat(Protocol):
    """How a model wants its conversation."""

    @property
    def end(self) -> int:
        """The token that closes a turn."""
        ...

    def encode(self, text: str) -> list[int]:
        """Text to tokens, without special tokens."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """A turn's tokens to text, its end token left out."""
        ...

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """A whole conversation, up to where the assistant speaks."""
        ...

    def bridge(
        self, history: Sequence[Message], new: Sequence[Message], tools: Sequence[ToolSpec], *, closed: bool
    ) -> list[int] | None:
        """What follows a sampled turn until the assistant speaks again.

        Args:
            history: The conversation before the new messages, the sampled turn last.
            new: The new messages.
            tools: The tools on offer.
            closed: Whether the turn's last token was the end token; if not, one is added (and never trained on).

        Returns:
            The tokens, or ``None`` where the format rewrites earlier turns: then the prompt is rendered anew.
        """
        ...


def signature(spec: ToolSpec) -> str:
    """A tool on one line, for models that cannot afford its whole schema: ``search(topic: a|b): Finds it``."""
    properties: Mapping[str, Any] = spec.parameters.get("properties") or {}
    required = set(spec.parameters.get("required") or ())
    parts = []
    for name, schema in properties.items():
        values = "|".join(str(value) for value in schema.get("enum", ())) if isinstance(schema, Mapping) else ""
        label = name if name in required else f"{name}?"
        parts.append(f"{label}: {values}" if values else label)
    return f"{spec.name}({', '.join(parts)}): {spec.description}"


class CompactChatML:
    """ChatML with one line a tool, for small models whose own template knows no tools (SmolLM2).

    Later turns may be offered other tools than the prompt lists (a way to submit an answer, say); the grammar knows
    them, the prompt need not.

    Args:
        tokenizer: A fast tokenizer with ``<|im_start|>`` and ``<|im_end|>``.

    Raises:
        UserError: The tokenizer lacks those tokens.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._start = _special(tokenizer, "<|im_start|>")
        self._end = _special(tokenizer, "<|im_end|>")
        self._newline = self.encode("\n")

    @property
    def end(self) -> int:
        """``<|im_end|>``."""
        return self._end

    def encode(self, text: str) -> list[int]:
        """Text to tokens; special tokens in the text are encoded as ordinary characters."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Tokens to text without the end token."""
        text: str = self._tokenizer.decode([token for token in ids if token != self._end])
        return text

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """System message with the tools, then the conversation."""
        system = [message.content for message in messages if message.role == "system"]
        lines = "".join(f"\n{signature(tool)}" for tool in tools)
        ids = self._block("system", "\n".join(system) + lines)
        rest = [message for message in messages if message.role != "system"]
        for message in rest:
            ids += self._newline + self._message(message)
        return ids + self._open()

    def bridge(
        self, history: Sequence[Message], new: Sequence[Message], tools: Sequence[ToolSpec], *, closed: bool
    ) -> list[int] | None:
        """Always append-only."""
        ids = [] if closed else [self._end]
        for message in new:
            ids += self._newline + self._message(message)
        return ids + self._open()

    def _message(self, message: Message) -> list[int]:
        if message.role == "tool":
            return self._block("tool", message.content)
        text = message.content
        if message.tool_calls:
            calls = (call.for_template()["function"] for call in message.tool_calls)
            text += "".join(f"<tool_call>\n{_json(call)}\n</tool_call>" for call in calls)
        return self._block(message.role, text)

    def _block(self, role: str, text: str) -> list[int]:
        return [self._start, *self.encode(f"{role}\n{text}"), self._end]

    def _open(self) -> list[int]:
        return [*self._newline, self._start, *self.encode("assistant\n")]


class TemplateFormat:
    """The tokenizer's own chat template, for models trained with tools (Qwen3, Llama 3.1, …).

    The tokens between turns are the difference between two renderings. Where the template rewrites earlier turns
    (Qwen3 drops earlier thinking after a user message) the difference is no plain suffix, and the prompt is rendered
    anew.

    Args:
        tokenizer: A tokenizer with a chat template that knows tools.
        end: The token that closes a turn; by default the tokenizer's end-of-sequence token.
        options: Further arguments of the template, such as ``enable_thinking``.

    Raises:
        UserError: There is no chat template.
    """

    def __init__(self, tokenizer: Any, *, end: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise UserError("the tokenizer has no chat template; use a chat model, or format: compact")
        self._tokenizer = tokenizer
        self._options = dict(options or {})
        self._end = int(tokenizer.eos_token_id if end is None else end)
        # Not all_special_tokens: that lists only the named ones, and Llama 3.1's role headers have no name.
        added = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
        self._specials = sorted(added | {token for token in tokenizer.all_special_tokens if token})

    @property
    def end(self) -> int:
        """The token that closes a turn."""
        return self._end

    def encode(self, text: str) -> list[int]:
        """Text to tokens; special tokens in the text are encoded as ordinary characters."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Tokens to text without the end token."""
        text: str = self._tokenizer.decode([token for token in ids if token != self._end])
        return text

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """The template's own rendering."""
        return self._ids(self._render(messages, tools, opened=True))

    def bridge(
        self, history: Sequence[Message], new: Sequence[Message], tools: Sequence[ToolSpec], *, closed: bool
    ) -> list[int] | None:
        """The rendered suffix, if the template only appended."""
        before = self._render(history[:-1], tools, opened=True)
        spoken = self._render(history, tools, opened=False)
        after = self._render((*history, *new), tools, opened=True)
        end = self._tokenizer.convert_ids_to_tokens(self._end)
        cut = spoken.rfind(end)
        if not after.startswith(spoken) or not spoken.startswith(before.rstrip()) or cut < 0:
            return None
        suffix = self._ids(after[cut + len(end) :])
        return suffix if closed else [self._end, *suffix]

    def _render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, opened: bool) -> str:
        text: str = self._tokenizer.apply_chat_template(
            [self._defused(message.for_template()) for message in messages],
            tools=[self._defused(tool.to_wire()) for tool in tools] or None,
            add_generation_prompt=opened,
            tokenize=False,
            **self._options,
        )
        return text

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _defused(self, value: Any) -> Any:
        """A message or tool with delimiters in its texts broken up: a template's whole text is encoded at once.

        All of it is untrusted: what users and tools say, what a server says of its tools, and what a model wrote when
        it is rendered again.
        """
        if isinstance(value, str):
            for token in self._specials:
                value = value.replace(token, f"{token[0]} {token[1:]}")
            return value
        if isinstance(value, Mapping):
            return {self._defused(key): self._defused(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._defused(item) for item in value]
        return value


def _special(tokenizer: Any, token: str) -> int:
    number = tokenizer.convert_tokens_to_ids(token)
    if number is None or number == tokenizer.unk_token_id:
        raise UserError(f"the tokenizer has no {token} token; the compact format is for ChatML models such as SmolLM2")
    return int(number)


def _json(function: Mapping[str, Any]) -> str:
    return json.dumps(dict(function), ensure_ascii=False)
