"""The JSON object of a tool call as language models write it: where it ends, and what it says.

What a model writes is untrusted: size, depth and time are bounded, nothing is evaluated, and no value leaves here that
JSON or UTF-8 cannot carry. Two habits of real models are read without loss, since they have one meaning only: raw line
breaks inside strings, and Python's quoting (``{'a': True}``). Everything else that is not JSON is an error.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_DEPTH = 64
"""Objects and lists inside each other, at most."""
MAX_CALL_CHARS = 1_000_000
"""Characters of one call, at most."""

_OUTSIDE = re.compile(r"[\"'{}\[\]<\\]")
_INSIDE = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_PYTHON_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"'  # left as it is
    r"|'(?P<single>(?:[^'\\]|\\.)*)'"
    r"|\b(?P<word>True|False|None)\b",
    re.DOTALL,
)
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_QUOTE = re.compile(r"\\.|\"", re.DOTALL)


class CallSyntaxError(ValueError):
    """The text is no JSON object; the message says where and why."""


class ObjectScanner:
    """Finds the end of a JSON object in text that arrives in pieces, looking at each character once.

    It only balances brackets outside strings; whether the object is valid is for :func:`decode_object`. A ``<``
    outside a string cannot belong to JSON, so it ends the search: that is what keeps a broken call from swallowing
    the calls after it.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._escaped = False
        self._length = 0

    def scan(self, text: str, start: int) -> int | None:
        """Go on at ``start``. Returns the position after the object, or ``None`` if it goes on after this text.

        Raises:
            CallSyntaxError: No JSON object begins like this, or it is too large.
        """
        end = self._scan(text, start)
        self._length += (len(text) if end is None else end) - start
        if self._length > MAX_CALL_CHARS:
            raise CallSyntaxError(f"it is longer than {MAX_CALL_CHARS} characters")
        return end

    def _scan(self, text: str, position: int) -> int | None:
        if self._depth == 0:
            position = _skip_space(text, position)
            if position == len(text):
                return None
            if text[position] != "{":
                raise CallSyntaxError(f"it must be a JSON object, but it starts with {text[position]!r}")
        while True:
            if self._quote:
                position = self._scan_string(text, position)
            if self._quote or (match := _OUTSIDE.search(text, position)) is None:
                return None
            position = match.end()
            self._bracket(match[0])
            if self._depth == 0:
                return position

    def _scan_string(self, text: str, position: int) -> int:
        while True:
            if self._escaped:
                if position == len(text):
                    return position
                self._escaped = False
                position += 1
            match = _INSIDE[self._quote].search(text, position)
            if match is None:
                return len(text)
            position = match.end()
            if match[0] == self._quote:
                self._quote = ""
                return position
            self._escaped = True

    def _bracket(self, char: str) -> None:
        if char in "\"'":
            self._quote = char
        elif char in "{[":
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise CallSyntaxError(f"it is nested deeper than {MAX_DEPTH} levels")
        elif char in "}]":
            self._depth -= 1
        else:
            raise CallSyntaxError(f"{char!r} stands outside a string; is a quote or a closing brace missing?")


def decode_object(text: str) -> dict[str, Any]:
    """Read one JSON object that was written by a model.

    Lone surrogates become U+FFFD, so that the result can always be encoded.

    Raises:
        CallSyntaxError: It is no valid JSON object, a key appears twice, or a number is not finite or too long.
    """
    try:
        value = _loads(text)
    except json.JSONDecodeError as error:
        rewritten = _from_python_quoting(text)
        if rewritten == text:
            raise CallSyntaxError(_describe(error)) from None
        try:
            value = _loads(rewritten)
        except json.JSONDecodeError:
            raise CallSyntaxError(_describe(error)) from None
    if not isinstance(value, dict):
        raise CallSyntaxError(f"it must be a JSON object, not {kind_of(value)}")
    return value


def problem_of(text: str) -> str:
    """Why a text is no JSON object, in words for the model; empty where it is one."""
    try:
        if ObjectScanner().scan(text, 0) is None:
            return (
                "its JSON object is not closed; is a quote or a closing brace missing?"
                if text.strip()
                else "it is empty"
            )
        decode_object(text)
    except CallSyntaxError as error:
        return str(error)
    return ""


def well_formed(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced, so that it can be encoded as UTF-8."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def kind_of(value: Any) -> str:
    """The JSON name of a value's type, with its article, for error messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names = {str: "a string", int: "an integer", float: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def _loads(text: str) -> Any:
    try:
        return json.loads(
            text,
            strict=False,
            object_pairs_hook=_object,
            parse_constant=_reject_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except RecursionError:
        raise CallSyntaxError(f"it is nested deeper than {MAX_DEPTH} levels") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        name = well_formed(key)
        if name in result:
            raise CallSyntaxError(f"the key {name[:80]!r} appears twice in one object")
        result[name] = _clean(value)
    return result


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value  # objects were cleaned by the hook when they were read


def _reject_constant(name: str) -> Any:
    raise CallSyntaxError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise CallSyntaxError(f"the number {text[:40]} is too large")
    return number


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # Python bounds the digits that it converts
        raise CallSyntaxError(f"the number {text[:40]}… is too long") from None


def _from_python_quoting(text: str) -> str:
    return _PYTHON_TOKEN.sub(_to_json_token, text)


def _to_json_token(match: re.Match[str]) -> str:
    if match["word"] is not None:
        return _PYTHON_WORDS[match["word"]]
    if match["single"] is None:
        return match[0]
    body = _QUOTE.sub(lambda part: {"\\'": "'", '"': '\\"'}.get(part[0], part[0]), match["single"])
    return f'"{body}"'


def _describe(error: json.JSONDecodeError) -> str:
    near = error.doc[max(0, error.pos - 20) : error.pos + 20]
    return f"{error.msg} at character {error.pos}, near {well_formed(near)!r}"


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position
