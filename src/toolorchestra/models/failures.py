"""What a failed request means: read it, try again, or stop. Nothing here holds or prints a key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolorchestra.errors import ModelFacingError, RetryableError, ToolOrchestraError, UnreachableError, UserError
from toolorchestra.redaction import redact
from toolorchestra.trajectory import Charge

_MAX_MESSAGE = 500
_RETRYABLE = frozenset({408, 409, 423, 425, 429})
_CONTEXT = re.compile(
    r"context[_ ](?:length|window|size)|maximum context|prompt is too long|too many (?:input )?tokens|max_model_len",
    re.I,
)
_FILTERED = re.compile(r"content[_ ](?:filter|policy)|safety system|usage policies", re.I)
_OUT_OF_CREDIT = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.I)
_ALLOWED = re.compile(r"(?:context (?:length|window|size)|max_model_len)\D{0,30}(\d{2,9})", re.I)
_USED = re.compile(
    r"(?:requested|resulted in|contains?|has|is too long:|passed)\s(?:about |at least )?(\d{2,9})\s(?:\w+\s)?tokens",
    re.I,
)


class RequestRefusedError(ModelFacingError):
    """The server refused what the conversation says; a model that called this one as a tool can word it otherwise.

    Attributes:
        charges: What earlier attempts of the same call cost.
    """

    charges: tuple[Charge, ...] = ()


class ContextLengthError(RequestRefusedError):
    """The conversation does not fit the model's context.

    For a policy's own model this is a limit on tokens: ``ChatPolicy`` turns it into one.

    Attributes:
        allowed: Tokens that fit, where the server says so.
        used: Tokens that were sent, where the server says so.
    """

    def __init__(self, message: str, *, allowed: int | None = None, used: int | None = None) -> None:
        super().__init__(message)
        self.allowed = allowed
        self.used = used


class AttemptsFailedError(RetryableError):
    """Every attempt failed, or the server asked for a longer wait than is allowed.

    Attributes:
        charges: What the failed attempts cost all the same.
        attempts: How many were made.
    """

    def __init__(
        self, message: str, *, charges: Sequence[Charge] = (), attempts: int = 0, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.charges = tuple(charges)
        self.attempts = attempts


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What an error message says about where the request went. It never holds the key itself.

    Attributes:
        name: The model's name in the configuration.
        model: The model's name at the server.
        base_url: The server.
        api_key_env: The environment variable that holds the key.
    """

    name: str
    model: str
    base_url: str
    api_key_env: str | None = None

    def __str__(self) -> str:
        return f"model {self.name!r} at {self.base_url}"


def classify(endpoint: Endpoint, status: int, body: Any, retry_after_s: float | None = None) -> ToolOrchestraError:
    """The exception for an error status.

    Args:
        endpoint: Where the request went.
        status: The HTTP status, or the code of an error object that came with status 200.
        body: The decoded body, or its text.
        retry_after_s: What the server asked for.

    Returns:
        ``RetryableError`` for what may pass, ``ContextLengthError`` or ``RequestRefusedError`` for what the
        text of the conversation caused, ``UnreachableError`` for a refused key, ``UserError`` for everything else.
    """
    message, code = _explain(body)
    said = f"{status}: {message}" if message else f"status {status}"
    if status in (401, 403):
        return UnreachableError(f"{endpoint} refuses the key ({said}). {_key_advice(endpoint)}")
    if status == 402 or (status == 429 and _OUT_OF_CREDIT.search(f"{code} {message}")):
        return UserError(f"{endpoint} has no credit left ({said}). Top the account up or raise its limit")
    if status in _RETRYABLE or status >= 500:
        return RetryableError(f"{endpoint} failed ({said})", retry_after_s=retry_after_s)
    if status < 400:
        return UserError(f"{endpoint} redirects (status {status}); set base_url to where the API really is")
    if status == 413 or _CONTEXT.search(f"{code} {message}"):
        allowed, used = _number(_ALLOWED, message), _number(_USED, message)
        text = f"the conversation is too long for model {endpoint.name!r} ({said}); send less text"
        return ContextLengthError(text, allowed=allowed, used=used)
    if _FILTERED.search(f"{code} {message}"):
        return RequestRefusedError(f"model {endpoint.name!r} refused the text by its content policy ({said})")
    if status == 404:
        return UserError(
            f"{endpoint} was not found ({said}). Check that the server has a model {endpoint.model!r} and that "
            "base_url ends where /chat/completions follows (mostly in /v1)"
        )
    return UserError(f"{endpoint} rejects the request ({said}). Check its sampling settings, tools and extra_body")


def error_status(error: Any) -> int:
    """The status that an error object inside a successful reply stands for; 502 where it does not say."""
    code = error.get("code", error.get("status")) if isinstance(error, Mapping) else None
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code[:4])
    if isinstance(code, int) and not isinstance(code, bool) and 400 <= code <= 599:
        return code
    return 502


def _explain(body: Any) -> tuple[str, str]:
    if isinstance(body, Mapping):
        error = body.get("error", body)
        if isinstance(error, Mapping):
            parts = [error.get("message") or error.get("detail"), error.get("code") or error.get("type")]
            message, code = (part if isinstance(part, str) else "" for part in parts)
            return redact(message[: 4 * _MAX_MESSAGE])[:_MAX_MESSAGE], code[:_MAX_MESSAGE]
        body = error
    text = body if isinstance(body, str) else ""
    # A proxy's HTML page explains nothing and would fill the terminal.
    return (
        "" if "<html" in text[:_MAX_MESSAGE].lower() else redact(text[: 4 * _MAX_MESSAGE]).strip()[:_MAX_MESSAGE]
    ), ""


def _key_advice(endpoint: Endpoint) -> str:
    if endpoint.api_key_env is None:
        return "No key was sent: name the environment variable that holds it with api_key_env"
    return f"Check the key in the environment variable {endpoint.api_key_env} and what it may use"


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found.group(1)) if found else None
