"""How long to wait before another attempt: bounded exponential back-off with jitter, and ``Retry-After``."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from toolorchestra.errors import UserError


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how patiently a failed request is made again.

    Attributes:
        attempts: Attempts in all, the first included.
        base_s: Seconds of the first back-off; it doubles with every attempt.
        cap_s: Longest back-off.
        retry_after_cap_s: Longest wait that a server may ask for. Beyond it the call fails at once: an earlier
            attempt would only hit the same limit again.

    Raises:
        UserError: A number is out of range.
    """

    attempts: int = 4
    base_s: float = 0.5
    cap_s: float = 30.0
    retry_after_cap_s: float = 120.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise UserError(f"retries.attempts is {self.attempts}: at least one attempt must be made")
        if min(self.base_s, self.cap_s, self.retry_after_cap_s) < 0:
            raise UserError("retries: base_s, cap_s and retry_after_cap_s are seconds and cannot be negative")

    def wait_s(self, attempt: int, asked_s: float | None, rng: random.Random) -> float | None:
        """Seconds to wait after a failed attempt; ``None`` to give up.

        Args:
            attempt: Its number, from 1.
            asked_s: Seconds that the server asked for, if it did.
            rng: Source of the jitter: between half and all of the back-off, so that clients do not come back at once.
        """
        if attempt >= self.attempts:
            return None
        if asked_s is not None:
            return asked_s if asked_s <= self.retry_after_cap_s else None
        back_off = min(self.cap_s, self.base_s * 2.0 ** min(attempt - 1, 60))
        return back_off * rng.uniform(0.5, 1.0)


def parse_retry_after(header: str | None, *, now: datetime | None = None) -> float | None:
    """Seconds that a ``Retry-After`` header asks for, given as seconds or as an HTTP date (RFC 9110, 10.2.3).

    ``None`` where the header is absent, malformed or not in the future: the usual back-off applies then.
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        seconds = _until(header, now or datetime.now(UTC))
    # NaN compares false, infinity is no time to wait for.
    return seconds if 0 < seconds < float("inf") else None


def _until(date: str, now: datetime) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    if moment.tzinfo is None:  # "-0000": UTC by RFC 5322, without saying where the sender is
        moment = moment.replace(tzinfo=UTC)
    return (moment - now).total_seconds()
