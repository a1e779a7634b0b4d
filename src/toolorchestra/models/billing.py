"""What an attempt costs, from the usage that the server returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolorchestra.pricing import Price, Usage, UsageError, usage_from_openai
from toolorchestra.trajectory import Charge

NO_USAGE = "the server returned no usage"
NO_PRICE = "no price is known"


def charge_for(usage: Any, *, source: str, price: Price | None, latency_s: float, note: str = "") -> Charge:
    """The charge of one attempt. What cannot be known is ``None`` and says why; it never becomes 0.

    Args:
        usage: The usage as the wire has it, whatever was there.
        source: Who spent it.
        price: What tokens, calls and seconds cost.
        latency_s: Seconds of the attempt.
        note: What else is worth saying.
    """
    read, problem = _read(usage)
    if price is None:
        problem = _join(problem, NO_PRICE)
    known = price is not None and (read is not None or price.is_free)
    return Charge(
        source=source,
        usd=price.cost(read, latency_s) if price is not None and known else None,
        latency_s=latency_s,
        usage=read,
        price="" if price is None else price.label,
        note=_join(note, problem),
    )


def _read(usage: Any) -> tuple[Usage | None, str]:
    if not isinstance(usage, Mapping) or not usage:
        return None, NO_USAGE
    try:
        return usage_from_openai(usage), ""
    except UsageError as error:
        return None, f"the usage cannot be read: {error}"


def _join(*notes: str) -> str:
    return "; ".join(filter(None, notes))
