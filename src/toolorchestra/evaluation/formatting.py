"""Numbers and untrusted text as a reader wants them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from toolorchestra.evaluation.statistics import Estimate

UNKNOWN = "unknown"
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, text-direction overrides (they make text read as what it is not) and lone surrogates."""


def percent(value: float, digits: int = 1) -> str:
    """0.935 → ``93.5%``."""
    return f"{100 * value:.{digits}f}%"


def whole_percent(value: float) -> str:
    """0.405 → ``40%``; below 10% with a digit more, ``3.1%``."""
    return percent(value, 0 if abs(value) >= 0.0995 else 1)


def points(value: float) -> str:
    """0.021 → ``+2.1``: a difference of two shares in points."""
    return f"{100 * value:+.1f}".replace("-", "−")


def dollars(value: float) -> str:
    """Three significant digits and at least cents, never in exponents: ``$0.00123``, ``$0.40``, ``$1,234.00``."""
    return _dollars(value, 3)


def about_dollars(value: float) -> str:
    """The same with two significant digits, for the ends of intervals."""
    return _dollars(value, 2)


def _dollars(value: float, significant: int) -> str:
    if value == 0.0:
        return "$0"
    digits = max(2, significant - 1 - math.floor(math.log10(abs(value))))
    whole, _, part = f"{abs(value):,.{digits}f}".partition(".")
    return f"{'−' if value < 0 else ''}${whole}.{part.rstrip('0').ljust(2, '0')}"


def seconds(value: float) -> str:
    """``0.42 s``, ``12.3 s``, ``3 min 20 s``."""
    if abs(value) >= 120:
        return f"{int(value // 60)} min {int(value % 60)} s"
    return f"{value:.2f} s" if abs(value) < 10 else f"{value:.1f} s"


def decimal(value: float) -> str:
    """Three digits after the point."""
    return f"{value:.3f}".replace("-", "−")


def interval(estimate: Estimate, form: Callable[[float], str]) -> str:
    """``[90.1%, 95.9%]``; empty where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{form(estimate.low)}, {form(estimate.high)}]"


def safe_text(text: str, limit: int = 4000) -> str:
    """Untrusted text without characters that deceive or break the page, and bounded in length."""
    cut = len(text) - limit
    text = _CONTROL.sub("\ufffd", text[:limit])
    return f"{text} … ({cut:,} more characters)" if cut > 0 else text
