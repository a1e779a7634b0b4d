"""What a turn may consist of: a call, a call or text, or anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from toolorchestra.policies.tokens.grammar import CallConstraint, Forced, Need, Pick
from toolorchestra.trajectory import AllowedTokens

ANYTHING = AllowedTokens(only=False, ids=())


class TurnConstraint(Protocol):
    """Says, token by token, what a turn needs next. :class:`~.grammar.CallConstraint` is one."""

    def need(self) -> Need:
        """The tokens that are forced now, the choice that is due, or ``None`` at the end."""
        ...

    def commit(self, ids: Sequence[int]) -> None:
        """Take what was appended or chosen."""
        ...


@dataclass(slots=True)
class FreeTurn:
    """Anything, until the end token or ``max_tokens``.

    Attributes:
        end: The token that closes the turn.
        max_tokens: Bound on the turn's length.
        banned: Tokens that never belong in a turn, such as the start of a message.
    """

    end: int
    max_tokens: int
    banned: tuple[int, ...] = ()
    _count: int = 0
    _over: bool = False

    def need(self) -> Need:
        """A free choice until the turn is over."""
        if self._over or self._count >= self.max_tokens:
            return None
        return Pick(AllowedTokens(only=False, ids=self.banned) if self.banned else ANYTHING)

    def commit(self, ids: Sequence[int]) -> None:
        """Count tokens; stop at the end token."""
        self._count += len(ids)
        self._over = self._over or self.end in ids


@dataclass(slots=True)
class CallOrText:
    """A well-formed call, or text that does not begin like one. The first token decides.

    Attributes:
        call: The call's grammar.
        text: The rules for text.
    """

    call: CallConstraint
    text: FreeTurn
    _chosen: CallConstraint | FreeTurn | None = None

    def need(self) -> Need:
        """First the choice between call and text, then what the chosen one needs."""
        return self.text.need() if self._chosen is None else self._chosen.need()

    def commit(self, ids: Sequence[int]) -> None:
        """Take tokens; the first one decides."""
        if self._chosen is None:
            opening = self.call.need()
            starts_call = isinstance(opening, Forced) and bool(ids) and opening.ids[0] == ids[0]
            self._chosen = self.call if starts_call else self.text
        self._chosen.commit(ids)
