"""Prices as people write them: one row in ``orchestra.yaml`` or in a price file, the same form in both."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from toolorchestra.config._section import Section, fault, input_file


def _decimal(value: Any) -> Any:
    # A float from Python code is read as it prints, not as the binary number next to it.
    return Decimal(repr(value)) if isinstance(value, float) else value


Dollars = Annotated[Decimal, BeforeValidator(_decimal), Field(ge=0, le=1_000_000)]
"""An exact, finite amount of dollars that is not negative."""


_PRICES = input_file("create it with lines such as `gpt-5: {input: 1.25, output: 10}`")


class TierRow(Section):
    """Other prices for long prompts."""

    above_prompt_tokens: int = Field(gt=0)
    """The tier applies to requests with strictly more prompt tokens than this, cached ones included."""
    scope: Literal["whole_request", "marginal"]
    """``whole_request``: all tokens of such a request cost the tier's price. ``marginal``: only those above it do."""
    input: Dollars
    """Dollars for a million prompt tokens."""
    output: Dollars
    """Dollars for a million generated tokens."""
    cache_read: Dollars | None = None
    """Dollars for a million prompt tokens read from a cache; by default the base row's, else the tier's input price."""
    cache_write_5m: Dollars | None = None
    """Dollars for a million prompt tokens written to a short-lived cache; by default as ``cache_read``."""
    cache_write_1h: Dollars | None = None
    """Dollars for a million prompt tokens written to a long-lived cache; by default as ``cache_read``."""
    reasoning: Dollars | None = None
    """Dollars for a million reasoning tokens; by default the base row's, else the tier's output price."""


class PriceRow(Section):
    """What a model or a tool costs: by a million tokens, by call, by second. Free must be said: ``free: true``."""

    free: bool = False
    """Says that it costs nothing at all. Without it, a price of zero is taken for a mistake."""
    input: Dollars | None = None
    """Dollars for a million prompt tokens."""
    output: Dollars | None = None
    """Dollars for a million generated tokens."""
    cache_read: Dollars | None = None
    """Dollars for a million prompt tokens read from a cache; by default the input price."""
    cache_write_5m: Dollars | None = None
    """Dollars for a million prompt tokens written to a short-lived cache; by default the input price."""
    cache_write_1h: Dollars | None = None
    """Dollars for a million prompt tokens written to a long-lived cache; by default ``cache_write_5m``."""
    reasoning: Dollars | None = None
    """Dollars for a million reasoning tokens, where they have their own price; by default the output price."""
    tiers: tuple[TierRow, ...] = ()
    """Other prices for long prompts, the lowest threshold first."""
    per_call_usd: Dollars | None = None
    """Dollars for each call."""
    per_second_usd: Dollars | None = None
    """Dollars for each second."""
    source: str = ""
    """Where the price comes from, for the record."""
    date: dt.date | None = None
    """The day on which it held, for the record."""

    @model_validator(mode="after")
    def _check_whole(self) -> PriceRow:
        amounts = (self.input, self.output, self.per_call_usd, self.per_second_usd)
        given = [amount for amount in amounts if amount is not None]
        if self.free:
            if any(given) or self.tiers:
                raise fault("is free and has a price; remove one of the two", at=["free"])
            return self
        if (self.input is None) != (self.output is None):
            missing = "output" if self.output is None else "input"
            raise fault(f"has no {missing!r}; give both prices in dollars for a million tokens", at=[missing])
        if not any(given):
            raise fault(
                "has no price above zero; give input and output (dollars for a million tokens), per_call_usd or "
                "per_second_usd, or say free: true"
            )
        return self._check_tiers()

    def _check_tiers(self) -> PriceRow:
        extras = (self.cache_read, self.cache_write_5m, self.cache_write_1h, self.reasoning)
        if self.input is None and (self.tiers or any(extra is not None for extra in extras)):
            raise fault("has cache, reasoning or tier prices but no input and output price; give those too")
        starts = [tier.above_prompt_tokens for tier in self.tiers]
        if starts != sorted(set(starts)):
            raise fault(f"thresholds must rise, got {starts}", at=["tiers"])
        if len({tier.scope for tier in self.tiers}) > 1:
            raise fault("all tiers of one price have the same scope", at=["tiers"])
        return self


class PricesSettings(Section):
    """Where prices come from. A price given at the model or tool itself wins over the file, the file over the base."""

    base: Literal["genai-prices"] | None = "genai-prices"
    """The price table that is looked in last; ``null`` for none."""
    override: Annotated[Path, _PRICES] | None = None
    """A YAML file of prices by model name."""
