"""The four kinds of failure, told apart by who must act.

- :class:`ModelFacingError`: the *model* should read it and try something else. It becomes an observation.
- :class:`RetryableError`: a *retry* may help (an overloaded server, a torn connection). Always bounded.
- :class:`LimitReached`: a *limit* ended the work: which one, and how far it got.
- :class:`UserError`: the *user* must act. The message names the file or setting, what is wrong with it and the fix.

An infrastructure failure (a :class:`RetryableError` that stayed) is missing data: it is never scored 0.
"""

from __future__ import annotations


class ToolOrchestraError(Exception):
    """Base of every error that this package raises on purpose."""


class ModelFacingError(ToolOrchestraError):
    """What a call did wrong, in words that the calling model can act on."""


class RetryableError(ToolOrchestraError):
    """A failure of the infrastructure that may pass.

    Attributes:
        retry_after_s: Seconds that the other side asked to wait, if it did.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LimitReached(ToolOrchestraError):
    """A limit of an episode or a budget was hit.

    Attributes:
        limit: Which one: ``turns``, ``tokens``, ``usd`` or ``seconds``.
        allowed: Its value.
        used: How far the episode had come when it was stopped.
    """

    def __init__(self, limit: str, *, allowed: float, used: float) -> None:
        super().__init__(f"the limit of {allowed:g} {limit} was reached ({used:g} used)")
        self.limit = limit
        self.allowed = allowed
        self.used = used


class UserError(ToolOrchestraError):
    """The user must change something. ``exit_code`` is what the command line returns."""

    exit_code = 2


class UnreachableError(UserError):
    """Something that the configuration names does not answer (a server, a key that is refused)."""

    exit_code = 3
