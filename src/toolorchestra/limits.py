"""What an episode may use, and how much of it is used: turns, tokens, dollars, seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from toolorchestra.errors import LimitReached, UserError
from toolorchestra.trajectory import Charge


@dataclass(frozen=True, slots=True)
class Limits:
    """What an episode may use. ``None`` does not limit. The first limit reached ends it and stands on its record.

    A limit is checked before every decision and, but for ``turns``, before a turn's calls are carried out. The turn
    that crosses it is not undone: its money is spent. An episode that ends by itself is ``done``, whatever its last
    turn cost.

    Attributes:
        turns: Decisions of the policy.
        tokens: Tokens of all charges, read and written, of the orchestrator and of every model it called.
        usd: Dollars of all charges. With this limit, a charge of unknown price stops the run.
        seconds: Seconds of the episode, virtual ones as recorded. What runs in real time is cut short by it.
        forced_answer: Whether a last answer without tools is demanded once a limit other than ``seconds`` is reached.
            It may exceed the limit by this one turn; the trajectory says that the answer was forced.

    Raises:
        UserError: A limit is not above 0.
    """

    turns: int = 50
    tokens: int | None = None
    usd: Decimal | float | None = None
    seconds: float | None = None
    forced_answer: bool = False

    def __post_init__(self) -> None:
        for name in ("turns", "tokens", "usd", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UserError(f"limits.{name} is {value}: use a number above 0, or leave it out for no limit")


class Spent:
    """What an episode has used so far, against its limits.

    Raises:
        UserError: From ``add`` and ``add_turn``: dollars are limited and a charge's price is unknown.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._limit_usd = None if limits.usd is None else Decimal(str(limits.usd))
        self._turns = 0
        self._tokens = 0
        self._usd = Decimal(0)
        self._seconds = 0.0

    def add_turn(self, charges: Sequence[Charge], latency_s: float) -> None:
        """Count one decision and what it cost."""
        self._turns += 1
        self.add(charges, latency_s)

    def add(self, charges: Sequence[Charge], latency_s: float) -> None:
        """Count money, tokens and seconds."""
        self._seconds += latency_s
        for charge in charges:
            if charge.usage is not None:
                used = charge.usage
                cached = used.cache_read_tokens + used.cache_write_5m_tokens + used.cache_write_1h_tokens
                self._tokens += used.input_tokens + used.output_tokens + cached
            if charge.usd is not None:
                self._usd += charge.usd
            elif self._limit_usd is not None:
                raise UserError(
                    f"limits.usd is set, but what {charge.source!r} costs is unknown: give it a price under "
                    "prices.override, or take limits.usd away"
                )

    @property
    def seconds_left(self) -> float | None:
        """``None`` for no limit; never below 0."""
        return None if self._limits.seconds is None else max(0.0, self._limits.seconds - self._seconds)

    def check_turns(self) -> None:
        """Raise ``LimitReached`` if no further decision may be made."""
        if self._turns >= self._limits.turns:
            raise LimitReached("turns", allowed=self._limits.turns, used=self._turns)
        self.check_budgets()

    def check_budgets(self) -> None:
        """Raise ``LimitReached`` if tokens, dollars or seconds are used up."""
        if self._limits.tokens is not None and self._tokens >= self._limits.tokens:
            raise LimitReached("tokens", allowed=self._limits.tokens, used=self._tokens)
        if self._limit_usd is not None and self._usd >= self._limit_usd:
            raise LimitReached("usd", allowed=float(self._limit_usd), used=float(self._usd))
        if self._limits.seconds is not None and self._seconds >= self._limits.seconds:
            raise LimitReached("seconds", allowed=self._limits.seconds, used=self._seconds)

    def out_of_time(self, latency_s: float) -> LimitReached:
        """The error for work that was cut short after ``latency_s`` seconds, which are counted."""
        self._seconds += latency_s
        return LimitReached("seconds", allowed=self._limits.seconds or 0.0, used=self._seconds)
