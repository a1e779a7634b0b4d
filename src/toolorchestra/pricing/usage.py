"""Tokens of a request, whatever the provider's own way to count them.

OpenAI-style counters are *inclusive* (``prompt_tokens`` holds the cached ones too), Anthropic's are *exclusive*. Read
with the wrong convention, cached tokens are billed twice or become negative. The adapters here give disjoint counters,
and refuse what cannot be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from typing import Any

from toolorchestra.errors import UserError


class UsageError(UserError, ValueError):
    """A count of tokens that cannot be: negative, no whole number, or parts larger than their whole."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request in *disjoint* counters, whatever the provider's own convention.

    Attributes:
        input_tokens: Prompt tokens billed at the full input price (neither read from nor written to a cache).
        output_tokens: All generated tokens, reasoning included.
        cache_read_tokens: Prompt tokens read from a cache.
        cache_write_5m_tokens: Prompt tokens written to a short-lived cache.
        cache_write_1h_tokens: Prompt tokens written to a long-lived cache.
        reasoning_tokens: The part of ``output_tokens`` that was reasoning (informative, already counted).

    Raises:
        UsageError: A count is negative, or there is more reasoning than output.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            count = getattr(self, field.name)
            if count < 0:
                raise UsageError(f"{field.name} is {count}: a count of tokens cannot be negative")
        if self.reasoning_tokens > self.output_tokens:
            raise UsageError(
                f"reasoning_tokens is {self.reasoning_tokens} of {self.output_tokens} output_tokens: "
                "reasoning is a part of the output"
            )

    @property
    def prompt_tokens(self) -> int:
        """The whole prompt: fresh, read from caches and written to them."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @property
    def total_tokens(self) -> int:
        """Prompt and output."""
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


def usage_from_openai(data: Mapping[str, Any]) -> Usage:
    """Read the ``usage`` of an OpenAI-compatible reply (Chat Completions or Responses), whose counters are inclusive.

    Where ``total_tokens`` is more than prompt and completion (xAI, Gemini's compatible endpoint), the rest is reasoning
    that was generated, and billed as output, outside ``completion_tokens``.

    Raises:
        UsageError: There is no count of the prompt, or more cached tokens than prompt: another convention's usage.
    """
    if "prompt_tokens" not in data and ("cache_read_input_tokens" in data or "cache_creation_input_tokens" in data):
        raise UsageError("this usage has Anthropic's counters (input_tokens without the cached ones), not OpenAI's")
    prompt = _count(data, "prompt_tokens", "input_tokens", needed=True)
    output = _count(data, "completion_tokens", "output_tokens")
    details = _section(data, "prompt_tokens_details", "input_tokens_details")
    read = _count(details, "cached_tokens") or _count(data, "prompt_cache_hit_tokens")
    written = _count(details, "cache_write_tokens", "cache_creation_tokens")
    reasoning = _count(_section(data, "completion_tokens_details", "output_tokens_details"), "reasoning_tokens")
    if read + written > prompt:
        raise UsageError(
            f"{read} tokens read from a cache and {written} written to one, in a prompt of {prompt}: OpenAI's "
            "prompt_tokens include the cached ones; is this usage of a provider that counts them apart?"
        )
    unlisted = max(0, _count(data, "total_tokens") - prompt - output)
    return Usage(
        input_tokens=prompt - read - written,
        output_tokens=output + unlisted,
        cache_read_tokens=read,
        cache_write_5m_tokens=written,
        reasoning_tokens=max(reasoning, unlisted),
    )


def usage_from_anthropic(data: Mapping[str, Any]) -> Usage:
    """Read the ``usage`` of an Anthropic reply, whose counters are exclusive.

    Cache writes that ``cache_creation`` does not break down by lifetime count as 5-minute ones (the API's default).

    Raises:
        UsageError: There is no count of the prompt, or the breakdown is more than the whole.
    """
    if "prompt_tokens" in data:
        raise UsageError("this usage has OpenAI's counters (prompt_tokens with the cached ones), not Anthropic's")
    breakdown = _section(data, "cache_creation")
    short = _count(breakdown, "ephemeral_5m_input_tokens")
    long = _count(breakdown, "ephemeral_1h_input_tokens")
    written = data.get("cache_creation_input_tokens")
    whole = short + long if written is None else _count(data, "cache_creation_input_tokens")
    if short + long > whole:
        raise UsageError(f"cache writes of {short} (5m) and {long} (1h) tokens are more than their sum of {whole}")
    return Usage(
        input_tokens=_count(data, "input_tokens", needed=True),
        output_tokens=_count(data, "output_tokens"),
        cache_read_tokens=_count(data, "cache_read_input_tokens"),
        cache_write_5m_tokens=whole - long,
        cache_write_1h_tokens=long,
    )


def _section(data: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    for key in keys:
        section = data.get(key)
        if isinstance(section, Mapping):
            return section
        if section is not None:
            raise UsageError(f"{key} must be an object, got {type(section).__name__}")
    return {}


def _count(data: Mapping[str, Any], *keys: str, needed: bool = False) -> int:
    """The first of the keys that is there; 0 (or an error) where none is."""
    for key in keys:
        value = data.get(key)
        if value is None:
            continue
        whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
        if not whole or value < 0:
            raise UsageError(f"{key} is {value!r}: a count of tokens is a whole number and not negative")
        return int(value)
    if needed:
        raise UsageError(f"the usage has none of {', '.join(keys)}: nothing to bill by")
    return 0
