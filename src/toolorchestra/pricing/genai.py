"""The base price table: the genai-prices package. It is loaded on the first look-up only."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from toolorchestra.pricing.price import Price, Tier

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelPrice, TieredPrices


def find(model: str, provider: str | None, at: dt.datetime) -> Price | None:
    """The price of a model on a day, or ``None``: not known, known in part only, or listed at zero.

    A zero there may mean free, a trial or unknown; whoever knows that a model is free says so in a row of their own.
    """
    from genai_prices import __version__

    for name, host in _readings(model, provider):
        try:
            found_host, found = _snapshot().find_provider_model(name, None, host, None)
        except LookupError:
            continue
        price = _convert(found.get_prices(at))
        if price is not None and not price.is_free:
            source = f"genai-prices {__version__} {found_host.id}:{found.id}"
            return replace(price, source=source, date=at.date())
    return None


def known_names() -> Sequence[str]:
    """All models of the table, as ``provider:model``."""
    return [f"{provider.id}:{model.id}" for provider in _snapshot().providers for model in provider.models]


def _readings(model: str, provider: str | None) -> list[tuple[str, str | None]]:
    """What a name can mean: ``openai:gpt-5`` and ``openai/gpt-5`` may hold the provider."""
    readings: list[tuple[str, str | None]] = [(model, provider)]
    if provider is None:
        for separator in (":", "/"):
            host, _, rest = model.partition(separator)
            if host and rest:
                readings.append((rest, host))
    return readings


def _snapshot() -> DataSnapshot:
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot()


def _convert(prices: ModelPrice) -> Price | None:
    """Our form of a price; ``None`` where the price of the input or the output is not stated."""
    base = _rates(prices, 0)
    if base is None:
        return None
    tiers = []
    for start in _thresholds(prices):
        rates = _rates(prices, start)
        if rates is not None:
            # Crossing a threshold there reprices the whole request (TieredPrices' docstring).
            tiers.append(Tier(start, "whole_request", **rates._asdict()))
    per_call = getattr(prices, "requests_kcount", None) or Decimal(0)
    return Price(**base._asdict(), tiers=tuple(tiers), per_call_usd=per_call / 1000)


class _Rates(NamedTuple):
    """Dollars for a million tokens from one threshold on."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None
    cache_write_5m: Decimal | None
    cache_write_1h: Decimal | None
    reasoning: Decimal | None


_TOKEN_KEYS = (
    "input_mtok",
    "output_mtok",
    "cache_read_mtok",
    "cache_write_mtok",
    "cache_write_1h_mtok",
    "output_reasoning_mtok",
)


def _rates(prices: ModelPrice, start: int) -> _Rates | None:
    first, second, *others = (_rate(getattr(prices, key), start) for key in _TOKEN_KEYS)
    return None if first is None or second is None else _Rates(first, second, *others)


def _rate(price: Decimal | TieredPrices | None, start: int) -> Decimal | None:
    """One token price, for prompts longer than ``start``."""
    if price is None or isinstance(price, Decimal):
        return price
    reached = [tier.price for tier in price.tiers if tier.start <= start]
    return reached[-1] if reached and start else price.base


def _thresholds(prices: ModelPrice) -> list[int]:
    """Where any token price changes. Each key has its own tiers there; ours change together."""
    values = (getattr(prices, key) for key in _TOKEN_KEYS)
    return sorted({tier.start for value in values if value is not None for tier in getattr(value, "tiers", ())})
