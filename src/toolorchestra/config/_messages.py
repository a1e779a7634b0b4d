"""Validation errors in words: the file, the path of the setting, what is wrong with it, and the fix."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from toolorchestra.config._section import did_you_mean, looks_secret
from toolorchestra.config._yaml import Document, Location
from toolorchestra.errors import UserError

MAX_SHOWN = 12
_SECTION_TYPES = frozenset({"model_type", "model_attributes_type", "dict_type"})
_LIST_TYPES = frozenset({"list_type", "tuple_type"})

_WANTED = {
    "float_parsing": "must be a number such as 0.5 or 1e-6",
    "float_type": "must be a number such as 0.5 or 1e-6",
    "finite_number": "must be a finite number",
    "decimal_parsing": "must be an amount such as 0.25",
    "decimal_type": "must be an amount such as 0.25",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "path_type": "must be a path",
    "date_from_datetime_parsing": "must be a date such as 2026-01-31",
}


def explain(error: ValidationError, document: Document, *, tagged: Collection[str] = ()) -> UserError:
    """One error that lists what is wrong, a line each. ``tagged`` names the sections that hold tagged unions."""
    details = error.errors(include_url=False)
    lines = [_line(detail, document, tagged) for detail in details[:MAX_SHOWN]]
    if len(details) > MAX_SHOWN:
        lines.append(f"{document.name}: and {len(details) - MAX_SHOWN} more")
    return UserError("\n".join(lines))


def _line(detail: ErrorDetails, document: Document, tagged: Collection[str]) -> str:
    context = detail.get("ctx", {})
    location = (*_location(detail["loc"], tagged), *context.get("at", ()))
    line = document.line(location)
    where = ".".join(str(part) for part in location) or "the file"
    return f"{document.name}: {where}{f' (line {line})' if line else ''}: {_text(detail, location, document)}"


def _location(loc: Sequence[str | int], tagged: Collection[str]) -> Location:
    """The path as it stands in the file: without the union's tag, which pydantic puts after ``section.name``."""
    return (*loc[:2], *loc[3:]) if loc and loc[0] in tagged else tuple(loc)


def _text(detail: ErrorDetails, location: Location, document: Document) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    got = _got(detail["input"], location)
    if kind == "setting":
        return str(context["text"])
    if kind == "missing":
        return f"is missing; add {location[-1] if location else 'it'!s}"
    if kind in _SECTION_TYPES:
        return f"must be a section of keys{got}"
    if kind in _LIST_TYPES:
        return f"must be a list{got}"
    if kind == "literal_error":
        return _choice(str(context["expected"]), detail["input"], got)
    for bound, word in (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below")):
        if bound in context:
            limit = context[bound]
            return f"must be {word} {f'{limit:g}' if isinstance(limit, float) else limit}{got}"
    if kind in _WANTED:
        return f"{_WANTED[kind]}{got}"
    return f"{detail['msg'][0].lower()}{detail['msg'][1:]}{got}"


def _choice(expected: str, value: Any, got: str) -> str:
    choices = [choice.strip().strip("'") for choice in expected.replace(" or ", ",").split(",")]
    if len(choices) == 1:
        return f"must be {choices[0]}{got}"
    meant = did_you_mean(str(value), choices)
    hint = f"; {meant}" if meant.startswith("did") else ""
    return f"must be one of {', '.join(choices)}{got}{hint}"


def _got(value: Any, location: Location) -> str:
    """What stood there, cut short; nothing where it could be a secret."""
    if isinstance(value, (Mapping, list, tuple)):
        return f", got {'a section' if isinstance(value, Mapping) else 'a list'}"
    if value is None:
        return ", got nothing"
    text = str(value)
    if looks_secret(text) or (location and str(location[-1]).endswith("_env")):
        return ""
    return f", got {text[:60]!r}{'…' if len(text) > 60 else ''}"
