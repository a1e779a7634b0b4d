"""Exact dollars: the recorded faults of others, properties, and an independent calculation on random requests."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.pricing import (
    Price,
    PriceError,
    Tier,
    Usage,
)

D = Decimal
AT = datetime(2026, 11, 1, tzinfo=UTC)

counts = st.integers(min_value=0, max_value=3_000_000)
amounts = st.decimals(min_value=0, max_value=1000, places=7)
optional_amounts = st.none() | amounts
OPTIONAL = ("cache_read", "cache_write_5m", "cache_write_1h", "reasoning")


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    output = draw(counts)
    reasoning = draw(st.integers(min_value=0, max_value=output))
    return Usage(draw(counts), output, draw(counts), draw(counts), draw(counts), reasoning)


@st.composite
def prices(draw: st.DrawFn, max_tiers: int = 3) -> Price:
    starts = sorted(draw(st.sets(st.integers(min_value=1, max_value=6_000_000), max_size=max_tiers)))
    scope: Any = draw(st.sampled_from(["whole_request", "marginal"]))
    tiers = tuple(
        Tier(start, scope, draw(amounts), draw(amounts), **{name: draw(optional_amounts) for name in OPTIONAL})
        for start in starts
    )
    extras: dict[str, Any] = {name: draw(optional_amounts) for name in OPTIONAL}
    fees: dict[str, Any] = {"per_call_usd": draw(amounts), "per_second_usd": draw(amounts)}
    return Price(draw(amounts), draw(amounts), **extras, **fees, tiers=tiers)


def token_by_token(price: Price, usage: Usage) -> Fraction:
    """An independent calculation in fractions, from the definition: the rate of each token by where it stands."""
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    levels: list[Price | Tier] = [price, *price.tiers]
    reached = [level for level in levels if level is price or prompt > level.above_prompt_tokens]  # type: ignore[union-attr]

    def rate(kind: str, level: Price | Tier) -> Fraction:
        chain = {
            "input": ["input"],
            "output": ["output"],
            "cache_read": ["cache_read", "input"],
            "cache_write_5m": ["cache_write_5m", "input"],
            "cache_write_1h": ["cache_write_1h", "cache_write_5m", "input"],
            "reasoning": ["reasoning", "output"],
        }[kind]
        for name in chain:
            for source in [level] if name in ("input", "output") else [level, price]:
                if getattr(source, name) is not None:
                    return Fraction(getattr(source, name))
        raise AssertionError(kind)

    parts = [
        ("cache_read", usage.cache_read_tokens),
        ("cache_write_1h", usage.cache_write_1h_tokens),
        ("cache_write_5m", usage.cache_write_5m_tokens),
        ("input", usage.input_tokens),
    ]
    total = (usage.output_tokens - usage.reasoning_tokens) * rate("output", reached[-1])
    total += usage.reasoning_tokens * rate("reasoning", reached[-1])
    marginal = bool(price.tiers) and price.tiers[0].scope == "marginal"
    cuts = (
        [0, *(tier.above_prompt_tokens for tier in price.tiers if tier in reached), prompt] if marginal else [0, prompt]
    )
    for index, level in enumerate(reached if marginal else reached[-1:]):
        spot = 0
        for kind, count in parts:
            inside = set_overlap(spot, spot + count, cuts[index], cuts[index + 1])
            total += inside * rate(kind, level)
            spot += count
    return total / 1_000_000


def set_overlap(a: int, b: int, c: int, d: int) -> int:
    return max(0, min(b, d) - max(a, c))


class TestCost:
    def test_cached_tokens_cost_their_own_price_once(self) -> None:  # cost-01
        price = Price(input=D("1.1"), output=D("4.4"), cache_read=D("0.275"))
        usage = Usage(input_tokens=904, output_tokens=512, cache_read_tokens=4096)
        cost = price.cost(usage)
        assert cost == (904 * D("1.1") + 4096 * D("0.275") + 512 * D("4.4")) / 1_000_000
        assert cost.quantize(D("0.000001")) == D("0.004374")

    def test_cache_writes_cost_by_their_lifetime(self) -> None:  # cost-02
        price = Price(D(3), D(15), cache_read=D("0.3"), cache_write_5m=D("3.75"), cache_write_1h=D(6))
        assert price.cost(Usage(120, 350, 8200, 500, 1500)) == D("0.018945")

    @pytest.mark.parametrize(("prompt", "usd"), [(250_000, "1.265"), (200_000, "0.51"), (200_001, "1.015005")])
    def test_a_tier_reprices_the_whole_request_strictly_above(self, prompt: int, usd: str) -> None:  # cost-03
        tier = Tier(200_000, "whole_request", D(5), D(15))
        assert Price(D("2.5"), D(10), tiers=(tier,)).cost(Usage(prompt, 1000)) == D(usd)

    def test_a_marginal_tier_reprices_the_rest_only(self) -> None:
        tier = Tier(200_000, "marginal", D(5), D(15))
        assert Price(D("2.5"), D(10), tiers=(tier,)).cost(Usage(250_000, 1000)) == D("0.765")

    def test_cached_tokens_count_for_the_threshold(self) -> None:
        tier = Tier(200_000, "whole_request", D(5), D(15), cache_read=D("0.5"))
        price = Price(D("2.5"), D(10), cache_read=D("0.25"), tiers=(tier,))
        assert price.cost(Usage(input_tokens=1, cache_read_tokens=200_000)) == D("0.100005")

    def test_a_million_tokens_cost_the_price(self) -> None:
        price = Price(D("1.25"), D(10), tiers=(Tier(1_000_000, "whole_request", D(2), D(20)),))
        assert price.cost(Usage(input_tokens=1_000_000)) == D("1.25")
        assert price.cost(Usage(input_tokens=1_000_001)) == D("2.000002")
        assert price.cost(Usage(output_tokens=1_000_000)) == D(10)

    def test_missing_prices_fall_back_to_the_dearer_base_never_to_zero(self) -> None:
        price = Price(D(2), D(8))
        assert price.cost(Usage(0, 100, 100, 100, 100, reasoning_tokens=60)) == (300 * D(2) + 100 * D(8)) / 1_000_000
        assert Price(D(2), D(8), cache_write_5m=D(3)).cost(Usage(cache_write_1h_tokens=10)) == D("0.00003")

    def test_reasoning_has_its_own_price_within_the_output(self) -> None:
        assert Price(D(2), D(8), reasoning=D(3)).cost(Usage(0, 100, reasoning_tokens=60)) == D("0.0005")

    def test_fees_by_call_and_second(self) -> None:
        price = Price(per_call_usd=D("0.008"), per_second_usd=D("0.0000083"))
        assert price.cost(calls=2, seconds=10) == D("0.016083")
        assert price.cost(seconds=0.1) == D("0.00800083"), "0.1 is billed as 0.1, not as the binary number next to it"
        assert Price(D(1), D(1), per_call_usd=D("0.01")).cost(Usage(1_000_000)) == D("1.01")

    @given(prices(), usages())
    def test_equals_an_independent_calculation_to_the_last_digit(self, price: Price, usage: Usage) -> None:
        assert Fraction(price.cost(usage, calls=0)) == token_by_token(price, usage)

    @given(prices(), usages(), st.integers(0, 9), st.floats(0, 1e6))
    def test_is_never_negative(self, price: Price, usage: Usage, calls: int, seconds: float) -> None:
        assert price.cost(usage, seconds, calls) >= 0

    @given(prices(max_tiers=0), usages(), usages(), st.decimals(0, 100, places=3), st.decimals(0, 100, places=3))
    def test_is_additive(self, price: Price, one: Usage, two: Usage, seconds: Decimal, more: Decimal) -> None:
        apart = Fraction(price.cost(one, seconds)) + Fraction(price.cost(two, more))
        assert Fraction(price.cost(one + two, seconds + more, calls=2)) == apart

    @given(prices(max_tiers=0), usages())
    def test_grows_with_use(self, price: Price, usage: Usage) -> None:
        assert price.cost(usage + Usage(1, 1)) >= price.cost(usage)

    @pytest.mark.parametrize(("seconds", "calls"), [(-1, 1), (float("nan"), 1), (float("inf"), 1), (0, -1)])
    def test_impossible_amounts_are_refused(self, seconds: float, calls: int) -> None:
        with pytest.raises(PriceError, match="cannot be billed"):
            Price(D(1), D(1)).cost(seconds=seconds, calls=calls)

    @pytest.mark.parametrize("amount", [D(-1), D("nan"), D("inf"), 1.5, 1])
    def test_a_price_is_a_finite_decimal(self, amount: Any) -> None:
        with pytest.raises(PriceError, match="input"):
            Price(input=amount, output=D(1))
        with pytest.raises(PriceError, match="output"):
            Tier(1, "marginal", D(1), amount)

    def test_tiers_must_rise_and_share_a_scope(self) -> None:
        low, high = Tier(10, "marginal", D(1), D(1)), Tier(20, "marginal", D(1), D(1))
        for tiers in [(high, low), (low, low), (low, Tier(20, "whole_request", D(1), D(1)))]:
            with pytest.raises(PriceError, match="thresholds"):
                Price(D(1), D(1), tiers=tiers)
        with pytest.raises(PriceError, match="cannot be"):
            Tier(0, "marginal", D(1), D(1))

    def test_label_tells_source_and_date(self) -> None:
        assert Price(source="prices.yaml", date=date(2026, 1, 31)).label == "prices.yaml 2026-01-31"
        assert Price(source="here").label == "here"


def test_real_price_tables_become_prices_that_bill_exactly(data_dir: Path) -> None:
    file = data_dir / "prices" / "litellm-1.110.2.json"
    if not file.is_file():
        pytest.skip(f"no {file.name} under {file.parent}")
    table = json.loads(file.read_text(), parse_float=D, parse_int=D)
    usage = Usage(1_000, 200, 300)
    checked = 0
    for name, row in table.items():
        rates = (row.get("input_cost_per_token"), row.get("output_cost_per_token"))
        if row.get("mode") != "chat" or not all(isinstance(rate, D) for rate in rates):
            continue
        cached = row.get("cache_read_input_token_cost")
        price = Price(rates[0] * 1_000_000, rates[1] * 1_000_000, cached if cached is None else cached * 1_000_000)
        cached = rates[0] if cached is None else cached
        assert price.cost(usage) == 1_000 * rates[0] + 200 * rates[1] + 300 * cached, name
        checked += 1
    assert checked > 1_000
