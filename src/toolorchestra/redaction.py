"""Error text that may be shown and stored: bounded, and without the secrets of this process.

A provider's message can repeat the key that it refused, and a traceback can hold a whole request. What goes to a
trajectory, a log or a model passes through here first.
"""

from __future__ import annotations

import os
import re
import traceback

HIDDEN = "[hidden]"
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS")
"""How the names of environment variables that hold secrets end."""

_SHORTEST_SECRET = 12
"""A shorter value (``false``, a port) would blank ordinary words; real keys are longer."""

_SECRET_FORMS = (
    re.compile(r"(?<=bearer )[^\s\"',;]{6,512}", re.IGNORECASE),
    re.compile(r"\b(?:sk|pk|hf|tvly|ghp|xox[a-z])[-_][A-Za-z0-9_-]{8,512}"),
    re.compile(r"(?<=api_key=)[^\s&\"']{4,512}|(?<=api-key: )\S{4,512}|(?<=[?&]key=)[^\s&\"']{4,512}", re.IGNORECASE),
    re.compile(r"(?<=://)[^/\s:@]{1,128}:[^/\s@]{1,256}(?=@)"),
)


def hide_known(text: str) -> str:
    """Blank the values of this process's secret environment variables, wherever they stand in ``text``."""
    for name, value in os.environ.items():
        if name.upper().endswith(_SECRET_NAMES) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, HIDDEN)
    return text


def redact(text: str) -> str:
    """Blank known secrets and whatever has the form of a key, a bearer token or a password in a URL."""
    text = hide_known(text)
    for form in _SECRET_FORMS:
        text = form.sub(HIDDEN, text)
    return text


def shorten(text: str, max_chars: int) -> str:
    """The text, or its start and a note of how much was cut. The note comes on top of ``max_chars``."""
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}\n[cut: {max_chars} of {len(text)} characters are shown]"


def describe_error(error: BaseException, *, max_chars: int = 300) -> str:
    """The type and the message of an error, on one line, bounded and without secrets."""
    # What is far behind the bound cannot be shown, so it is not searched either.
    words = " ".join(redact(str(error)[: 10 * max_chars]).split())
    name = type(error).__name__
    return f"{name}: {words[:max_chars]}" if words else name


def describe_traceback(error: BaseException, *, max_chars: int = 8_000) -> str:
    """The end of an error's traceback, bounded and without secrets, for a log."""
    text = "".join(traceback.format_exception(error))
    # Cut after hiding: half a key at the edge would no longer be recognised.
    return redact(text[-10 * max_chars :])[-max_chars:]
