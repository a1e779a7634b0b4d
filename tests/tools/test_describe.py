"""Names, descriptions and fees."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.tools import call_charges, check_tool_name, describe_tool


@pytest.mark.parametrize(
    ("usd", "seconds", "text"),
    [
        (None, None, "Good at sums."),
        (Decimal("0.0025"), 3.0, "Good at sums. $2.5 per 1k calls, ~3 s."),
        (Decimal("0.00250000"), 3, "Good at sums. $2.5 per 1k calls, ~3 s."),
        (Decimal(0), 0.123456, "Good at sums. Free, ~0.123 s."),
        (Decimal("1.5"), None, "Good at sums. $1500 per 1k calls."),
        (Decimal("0.000000123456"), None, "Good at sums. $0.000123 per 1k calls."),
        (None, 12.0, "Good at sums. ~12 s."),
    ],
)
def test_descriptions(usd: Decimal | None, seconds: float | None, text: str) -> None:
    assert describe_tool("Good at sums.", usd_per_call=usd, latency_s=seconds) == text


@given(st.decimals(min_value="0.000001", max_value=1000, places=6))
def test_a_price_is_written_without_exponent_and_close(usd: Decimal) -> None:
    text = describe_tool("x", usd_per_call=usd)
    shown = Decimal(text.removeprefix("x. $").removesuffix(" per 1k calls."))
    assert abs(shown - usd * 1000) <= usd * 1000 * Decimal("0.005")


def test_names() -> None:
    assert check_tool_name("ask_gpt-5") == "ask_gpt-5"
    for name in ("", "a b", "a.b", "x" * 65, "a\n"):
        with pytest.raises(UserError, match="tool name"):
            check_tool_name(name)


def test_charges() -> None:
    assert call_charges("t", None, 1.0) == ()
    (charge,) = call_charges("t", lambda seconds: Decimal(2) * int(seconds), 3.0)
    assert (charge.source, charge.usd, charge.latency_s) == ("t", Decimal(6), 3.0)
