"""Usage × price → exact dollars."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolorchestra.errors import UserError
from toolorchestra.pricing.usage import Usage

if TYPE_CHECKING:
    from toolorchestra.config import PriceRow, TierRow

MILLION = Decimal(1_000_000)
# Products of any real price and count fit; the default of 28 digits would round some.
_EXACT = Context(prec=120, rounding=ROUND_HALF_EVEN)

Scope = Literal["whole_request", "marginal"]


class PriceError(UserError, ValueError):
    """A price that cannot be: negative, not finite, not a Decimal, or tiers that contradict each other."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Other prices for long prompts, in dollars for a million tokens.

    Attributes:
        above_prompt_tokens: The tier applies to requests with strictly more prompt tokens (cached ones included).
        scope: ``whole_request``: every token of such a request costs the tier's price. ``marginal``: only the prompt
            tokens above the threshold do, and all generated tokens, which come after them.
        input: Of the prompt.
        output: Of what is generated.
        cache_read: ``None`` for the base price, or the tier's input price where the base has none.
        cache_write_5m: As ``cache_read``.
        cache_write_1h: As ``cache_read``.
        reasoning: ``None`` for the base price, or the tier's output price where the base has none.
    """

    above_prompt_tokens: int
    scope: Scope
    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    reasoning: Decimal | None = None

    def __post_init__(self) -> None:
        _check_amounts(self)
        if self.above_prompt_tokens < 1 or self.scope not in ("whole_request", "marginal"):
            raise PriceError(f"a tier above {self.above_prompt_tokens} tokens with the scope {self.scope!r} cannot be")


class _Rates(NamedTuple):
    """Dollars for a million tokens, nothing left open."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    reasoning: Decimal


@dataclass(frozen=True, slots=True)
class Price:
    """What a model or a tool costs. Token prices are dollars for a million tokens.

    Attributes:
        input: Prompt tokens.
        output: Generated tokens.
        cache_read: Prompt tokens read from a cache; ``None`` for the input price.
        cache_write_5m: Prompt tokens written to a short-lived cache; ``None`` for the input price.
        cache_write_1h: Prompt tokens written to a long-lived cache; ``None`` for ``cache_write_5m``.
        reasoning: Reasoning tokens, where they have their own price; ``None`` for the output price.
        tiers: Other prices for long prompts, thresholds rising, one scope.
        per_call_usd: Dollars for each call.
        per_second_usd: Dollars for each second.
        source: Where the price comes from, for the record.
        date: The day on which it held, for the record.

    Raises:
        PriceError: An amount is no finite Decimal of at least 0, or the tiers contradict each other.
    """

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    cache_read: Decimal | None = None
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    reasoning: Decimal | None = None
    tiers: tuple[Tier, ...] = ()
    per_call_usd: Decimal = Decimal(0)
    per_second_usd: Decimal = Decimal(0)
    source: str = field(default="", compare=False)
    date: dt.date | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_amounts(self)
        starts = [tier.above_prompt_tokens for tier in self.tiers]
        if starts != sorted(set(starts)) or len({tier.scope for tier in self.tiers}) > 1:
            raise PriceError(f"tiers must have rising thresholds and one scope, got thresholds {starts}")

    @property
    def is_free(self) -> bool:
        """Whether nothing can ever cost anything."""
        return not any(any(rates) for _, rates in self._levels()) and not (self.per_call_usd or self.per_second_usd)

    @property
    def label(self) -> str:
        """Source and date, for a charge's record."""
        return f"{self.source} {self.date or ''}".strip()

    def cost(self, usage: Usage | None = None, seconds: float | Decimal = 0, calls: int = 1) -> Decimal:
        """Dollars of ``calls`` calls that used these tokens and seconds together. Exact, and never negative.

        Tiers go by the prompt of one request: with tiers, price each request alone and add.

        Raises:
            PriceError: Seconds or calls are negative or not finite.
        """
        duration = seconds if isinstance(seconds, Decimal) else Decimal(repr(seconds))
        if calls < 0 or not duration.is_finite() or duration < 0:
            raise PriceError(f"{calls} calls in {seconds} seconds cannot be billed")
        with localcontext(_EXACT):
            tokens = Decimal(0) if usage is None else self._tokens(usage) / MILLION
            return tokens + self.per_call_usd * calls + self.per_second_usd * duration

    def _tokens(self, usage: Usage) -> Decimal:
        """Dollars of the tokens, times a million."""
        levels = [level for level in self._levels() if level[0] == 0 or usage.prompt_tokens > level[0]]
        last = levels[-1][1]
        spoken = (usage.output_tokens - usage.reasoning_tokens) * last.output + usage.reasoning_tokens * last.reasoning
        if not self.tiers or self.tiers[0].scope == "whole_request":
            return spoken + _prompt(usage, last)
        return spoken + _marginal(usage, levels)

    def _levels(self) -> Iterator[tuple[int, _Rates]]:
        """The base rates, which hold from the first token, and those of each tier, by threshold."""
        write = _first(self.cache_write_5m, self.input)
        base = _Rates(
            self.input,
            self.output,
            _first(self.cache_read, self.input),
            write,
            _first(self.cache_write_1h, write),
            _first(self.reasoning, self.output),
        )
        yield 0, base
        for tier in self.tiers:
            write = _first(tier.cache_write_5m, self.cache_write_5m, tier.input)
            rates = _Rates(
                tier.input,
                tier.output,
                _first(tier.cache_read, self.cache_read, tier.input),
                write,
                _first(tier.cache_write_1h, self.cache_write_1h, write),
                _first(tier.reasoning, self.reasoning, tier.output),
            )
            yield tier.above_prompt_tokens, rates


def price_from_row(row: PriceRow, *, source: str = "") -> Price:
    """The price that a row of the settings or of a price file states; ``source`` stands in where it names none."""
    return Price(
        input=row.input or Decimal(0),
        output=row.output or Decimal(0),
        cache_read=row.cache_read,
        cache_write_5m=row.cache_write_5m,
        cache_write_1h=row.cache_write_1h,
        reasoning=row.reasoning,
        tiers=tuple(_tier(tier) for tier in row.tiers),
        per_call_usd=row.per_call_usd or Decimal(0),
        per_second_usd=row.per_second_usd or Decimal(0),
        source=row.source or source,
        date=row.date,
    )


def _tier(row: TierRow) -> Tier:
    return Tier(
        above_prompt_tokens=row.above_prompt_tokens,
        scope=row.scope,
        input=row.input,
        output=row.output,
        cache_read=row.cache_read,
        cache_write_5m=row.cache_write_5m,
        cache_write_1h=row.cache_write_1h,
        reasoning=row.reasoning,
    )


def _prompt(usage: Usage, rates: _Rates) -> Decimal:
    return (
        usage.input_tokens * rates.input
        + usage.cache_read_tokens * rates.cache_read
        + usage.cache_write_5m_tokens * rates.cache_write_5m
        + usage.cache_write_1h_tokens * rates.cache_write_1h
    )


def _marginal(usage: Usage, levels: list[tuple[int, _Rates]]) -> Decimal:
    """The prompt in its order (read from a cache first, fresh last: caches hold beginnings), cut at the thresholds."""
    total = Decimal(0)
    ends = [start for start, _ in levels[1:]] + [usage.prompt_tokens]
    for (start, rates), end in zip(levels, ends, strict=True):
        position = 0
        for count, rate in (
            (usage.cache_read_tokens, rates.cache_read),
            (usage.cache_write_1h_tokens, rates.cache_write_1h),
            (usage.cache_write_5m_tokens, rates.cache_write_5m),
            (usage.input_tokens, rates.input),
        ):
            total += max(0, min(position + count, end) - max(position, start)) * rate
            position += count
    return total


def _first(*amounts: Decimal | None) -> Decimal:
    return next(amount for amount in amounts if amount is not None)


def _check_amounts(price: Price | Tier) -> None:
    for part in fields(price):
        amount = getattr(price, part.name)
        if amount is None or part.name in ("above_prompt_tokens", "scope", "tiers", "source", "date"):
            continue
        if not isinstance(amount, Decimal):
            raise PriceError(f"{part.name} is {amount!r}: dollars are exact; give Decimal('{amount}')")
        if not amount.is_finite() or amount < 0:
            raise PriceError(f"{part.name} is {amount}: a price is finite and not negative")
