"""Small things that every tool needs: its name, its description with price and seconds, its fee."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal

from toolorchestra.errors import UserError
from toolorchestra.trajectory import Charge

Fee = Callable[[float], Decimal]
"""What a tool's provider takes for a call: seconds of the call → dollars."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DIGITS = Context(prec=3, rounding=ROUND_HALF_EVEN)


def check_tool_name(name: str) -> str:
    """The name, if every provider takes it.

    Raises:
        UserError: It is empty, longer than 64 characters, or holds others than letters, digits, ``_`` and ``-``.
    """
    if _NAME.fullmatch(name) is None:
        raise UserError(f"the tool name {name!r} must be 1 to 64 letters, digits, '_' or '-'")
    return name


def describe_tool(ability: str, *, usd_per_call: Decimal | None = None, latency_s: float | None = None) -> str:
    """A description as the orchestrator reads it, such as ``Good at sums. $2.5 per 1k calls, ~3 s.``.

    The same facts always give the same text, whatever type or scale the numbers came in (three significant digits).

    Args:
        ability: What the tool is good at.
        usd_per_call: Dollars of a typical call; ``None`` leaves the price out (0 says "free").
        latency_s: Seconds of a typical call; ``None`` leaves them out.
    """
    facts: list[str] = []
    if usd_per_call is not None:
        facts.append("free" if usd_per_call == 0 else f"${_short(usd_per_call * 1000)} per 1k calls")
    if latency_s is not None:
        facts.append(f"~{_short(Decimal(str(latency_s)))} s")
    sentence = ability.strip().rstrip(".")
    if not facts:
        return f"{sentence}."
    text = ", ".join(facts)
    return f"{sentence}. {text[0].upper()}{text[1:]}."


def call_charges(name: str, fee: Fee | None, seconds: float) -> tuple[Charge, ...]:
    """The charge of one call of a tool with a fee; none where nobody takes money."""
    if fee is None:
        return ()
    return (Charge(source=name, usd=fee(seconds), latency_s=seconds, price="fee"),)


def _short(value: Decimal) -> str:
    """Three significant digits, without exponent or trailing zeros."""
    text = format(_DIGITS.plus(value), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
