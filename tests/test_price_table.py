"""Which price holds for a model: own rows, price files, the base table; never a silent zero."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.errors import UserError
from toolorchestra.pricing import Price, PriceTable, Tier, UnpricedModelError, Usage, read_prices

D = Decimal
AT = datetime(2026, 11, 1, tzinfo=UTC)


@contextmanager
def base_of(listed: dict[str, Any]) -> Iterator[None]:
    """A base table with one model, ``some-model`` of the provider ``some``."""
    from genai_prices.data_snapshot import DataSnapshot, set_custom_snapshot
    from genai_prices.types import ClauseEquals, ModelInfo, ModelPrice, Provider

    model = ModelInfo("some-model", ClauseEquals("some-model"), prices=ModelPrice(**listed))
    set_custom_snapshot(DataSnapshot([Provider("some", "Some", "https://some", models=[model])], False))
    try:
        yield
    finally:
        set_custom_snapshot(None)


class TestTable:
    def test_own_rows_win_over_the_base(self) -> None:
        own = Price(D(1), D(2))
        table = PriceTable({"gpt-5": own}, at=AT)
        assert table.price("gpt-5") is own
        assert table.price("gpt-5", provider="openai") is own

    def test_a_row_of_the_provider_wins_over_one_of_the_model(self) -> None:
        anywhere, together, fast = Price(D(1), D(2)), Price(D(3), D(4)), Price(D(5), D(6))
        table = PriceTable({"q": anywhere, "together:q": together, "fast/q": fast}, base=None)
        assert table.price("q") is anywhere
        assert table.price("q", provider="together") is together
        assert table.price("together:q") is together
        assert table.price("q", provider="fast") is fast

    @pytest.mark.parametrize(("name", "provider"), [("gpt-5", None), ("openai:gpt-5", None), ("gpt-5", "openai")])
    def test_the_base_is_asked_last(self, name: str, provider: str | None) -> None:
        price = PriceTable(at=AT).price(name, provider)
        assert (price.input, price.output, price.cache_read) == (D("1.25"), D(10), D("0.125"))
        assert price.label.startswith("genai-prices ")
        assert price.label.endswith("openai:gpt-5 2026-11-01")

    def test_an_unpriced_model_is_an_error_with_the_nearest_names_and_the_fix(self) -> None:
        with pytest.raises(UnpricedModelError) as caught:
            PriceTable({"my-gpt": Price(D(1), D(1))}, at=AT).price("my-gptt")
        text = str(caught.value)
        assert "'my-gptt'" in text
        assert "Nearest names with a price: my-gpt" in text
        assert "free: true" in text
        assert "not $0" in text
        assert caught.value.exit_code == 2
        with pytest.raises(UnpricedModelError, match="openai:gpt-5"):
            PriceTable(at=AT).price("gpt-5-xl")

    def test_without_a_base_nothing_is_guessed(self) -> None:
        with pytest.raises(UnpricedModelError, match="provider 'openai'"):
            PriceTable(base=None).price("gpt-5", provider="openai")

    @pytest.mark.parametrize(
        "listed",
        [{"input_mtok": D(0), "output_mtok": D(0)}, {"input_mtok": D(1)}, {"output_mtok": D(1)}, {}],
    )
    def test_a_listed_zero_or_half_a_price_is_not_taken_for_free(self, listed: dict[str, Decimal]) -> None:
        with base_of(listed), pytest.raises(UnpricedModelError, match="free: true"):
            PriceTable(at=AT).price("some-model", "some")

    def test_tiers_of_the_base_change_together(self) -> None:
        from genai_prices.types import Tier as TheirTier
        from genai_prices.types import TieredPrices

        listed = {
            "input_mtok": TieredPrices(D(1), [TheirTier(100, D(2)), TheirTier(200, D(3))]),
            "output_mtok": TieredPrices(D(10), [TheirTier(200, D(20))]),
            "cache_read_mtok": D("0.1"),
            "output_reasoning_mtok": D(7),
            "requests_kcount": D(5),
        }
        with base_of(listed):
            price = PriceTable(at=AT).price("some-model", "some")
        assert price == Price(
            D(1),
            D(10),
            D("0.1"),
            reasoning=D(7),
            tiers=(
                Tier(100, "whole_request", D(2), D(10), D("0.1"), reasoning=D(7)),
                Tier(200, "whole_request", D(3), D(20), D("0.1"), reasoning=D(7)),
            ),
            per_call_usd=D("0.005"),
        )

    def test_every_price_of_the_base_bills_as_its_own_calculator(self) -> None:
        from genai_prices.data_snapshot import get_snapshot

        usage = Usage(90_000, 3_000, 60_000, 151_000, 0)
        checked = tiered = 0
        for provider in get_snapshot().providers:
            for model in provider.models:
                if provider.find_model(model.id) is not model:
                    continue  # its own id leads elsewhere in that table
                expected = self._expected(model, provider, usage)
                if not expected:
                    continue
                price = PriceTable(at=AT).price(model.id, provider.id)
                assert price.cost(usage) == expected, price.source
                checked += 1
                tiered += bool(price.tiers)
        assert checked > 500
        assert tiered > 50

    @staticmethod
    def _expected(model: Any, provider: Any, usage: Usage) -> Decimal | None:
        from genai_prices import Usage as TheirUsage

        found = model.get_prices(AT)
        if found.input_mtok is None or found.output_mtok is None:
            return None
        theirs = TheirUsage(
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_5m_tokens,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cost: Decimal = model.calc_price(theirs, provider, genai_request_timestamp=AT).total_price
        return cost

    def test_the_base_is_loaded_on_the_first_look_up_only(self) -> None:
        code = (
            "import sys, toolorchestra.pricing as pricing; pricing.PriceTable();"
            "print([name for name in ('genai_prices', 'pydantic', 'yaml') if name in sys.modules])"
        )
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        assert out.stdout.strip() == "[]"


class TestFile:
    def test_rows_are_read_as_written(self, tmp_path: Path) -> None:
        file = tmp_path / "prices.yaml"
        file.write_text(
            "gpt-5: {input: 1.1, output: 4.4, cache_read: 0.275, date: 2026-01-31}\n"
            "here: {free: true}\n"
            "search: {per_call_usd: 8e-3, source: the contract}\n"
            "long:\n"
            "  input: 2.5\n"
            "  output: 10\n"
            "  tiers: [{above_prompt_tokens: 200000, scope: whole_request, input: 5, output: 15}]\n"
        )
        rows = read_prices(file)
        assert rows["gpt-5"] == Price(D("1.1"), D("4.4"), cache_read=D("0.275"))
        assert rows["gpt-5"].label == "prices.yaml 2026-01-31"
        assert rows["here"].is_free
        assert rows["search"].cost(calls=2) == D("0.016")
        assert rows["search"].label == "the contract"
        assert rows["long"].cost(Usage(250_000, 1000)) == D("1.265")
        assert not rows["long"].is_free

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ("{input: 1}", "m.output (line 1): has no 'output'"),
            ("{input: 0, output: 0}", "say free: true"),
            ("{}", "m (line 1): has no price"),
            ("", "m (line 1): must be a section of keys"),
            ("{free: true, input: 1, output: 1}", "m.free (line 1): is free and has a price"),
            ("{input: -1, output: 1}", "m.input (line 1): must be at least 0, got '-1'"),
            ("{input: cheap, output: 1}", "m.input (line 1): must be an amount such as 0.25, got 'cheap'"),
            ("{input: nan, output: 1}", "m.input (line 1): must be a finite number, got 'nan'"),
            ("{inptu: 1, output: 1}", "m.inptu (line 1): unknown key; did you mean 'input'?"),
            ("{input: 1, output: 1, date: soon}", "m.date (line 1):"),
            ("{per_call_usd: 1, cache_read: 1}", "give those too"),
            (
                "{input: 1, output: 1, tiers: [{above_prompt_tokens: 10, input: 1, output: 1}]}",
                "m.tiers.0.scope (line 1): is missing; add scope",
            ),
            (
                "{input: 1, output: 1, tiers: [{above_prompt_tokens: 10, scope: all, input: 1, output: 1}]}",
                "m.tiers.0.scope (line 1): must be one of whole_request, marginal, got 'all'",
            ),
            (
                "{input: 1, output: 1, tiers: [{above_prompt_tokens: 20, scope: marginal, input: 1, output: 1},"
                " {above_prompt_tokens: 10, scope: marginal, input: 1, output: 1}]}",
                "m.tiers (line 1): thresholds must rise, got [20, 10]",
            ),
            (
                "{input: 1, output: 1, tiers: [{above_prompt_tokens: 10, scope: marginal, input: 1, output: 1},"
                " {above_prompt_tokens: 20, scope: whole_request, input: 1, output: 1}]}",
                "m.tiers (line 1): all tiers of one price have the same scope",
            ),
        ],
    )
    def test_a_wrong_row_names_itself_and_the_fix(self, tmp_path: Path, row: str, message: str) -> None:
        file = tmp_path / "prices.yaml"
        file.write_text(f"m: {row}\n")
        with pytest.raises(UserError) as caught:
            read_prices(file)
        assert f"prices.yaml: {'m' if message.startswith('m') else ''}" in str(caught.value)
        assert message in str(caught.value)

    def test_an_empty_or_missing_file_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="no such file"):
            read_prices(tmp_path / "prices.yaml")
        (tmp_path / "prices.yaml").write_text("# nothing\n")
        with pytest.raises(UserError, match="write a row a model"):
            read_prices(tmp_path / "prices.yaml")
