"""Usage × price table → exact dollars (Decimal); an unpriced model is an error, never $0."""

from __future__ import annotations

from toolorchestra.pricing.price import Price, PriceError, Tier, price_from_row
from toolorchestra.pricing.table import PriceTable, UnpricedModelError, read_prices
from toolorchestra.pricing.usage import Usage, UsageError, usage_from_anthropic, usage_from_openai

__all__ = [
    "Price",
    "PriceError",
    "PriceTable",
    "Tier",
    "UnpricedModelError",
    "Usage",
    "UsageError",
    "price_from_row",
    "read_prices",
    "usage_from_anthropic",
    "usage_from_openai",
]
