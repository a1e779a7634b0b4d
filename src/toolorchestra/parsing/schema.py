"""Tool schemas and the arguments that models give: checked with JSON Schema, coerced only without loss.

A tool's schema may come from a stranger (an MCP server) and arguments come from a model, so both are bounded: nothing
is fetched for a ``$ref``, a regular expression has a deadline, and validators are cached up to a fixed number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol, cast

import regex
from jsonschema import Draft202012Validator, FormatChecker, SchemaError, ValidationError, validators
from referencing import Registry
from referencing.exceptions import Unresolvable

from toolorchestra.errors import UserError
from toolorchestra.messages import ToolCall, ToolSpec
from toolorchestra.parsing.call_json import kind_of
from toolorchestra.parsing.coercion import coerce

MAX_SCHEMA_CHARS = 200_000
"""Characters of a tool's schema as JSON, at most."""
MAX_PATTERN_CHARS = 100_000
"""Strings longer than this are not matched against a ``pattern``."""
PATTERN_TIMEOUT_S = 0.2
"""Seconds that one match against a ``pattern`` may take."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
# patterns are compiled here by the module that matches them, not by jsonschema
_NO_FORMATS = FormatChecker(formats=())
_SHOWN_ERRORS = 3
_SHOWN_CHARS = 200


class _Validator(Protocol):
    def iter_errors(self, instance: Any) -> Iterator[ValidationError]: ...


def check_spec(spec: ToolSpec) -> None:
    """Check that a tool can be offered: its name and its parameters.

    Raises:
        UserError: The name is not usable, or the parameters are no JSON Schema of an object that stands by itself.
            The message names the tool and the fix.
    """
    where = f"tool {spec.name[:80]!r}"
    if _NAME.match(spec.name) is None:
        raise UserError(f"{where}: a tool's name is 1 to 64 letters, digits, '_' and '-'; rename it")
    text = _schema_text(spec, where)
    if spec.parameters.get("type") != "object":
        raise UserError(
            f"{where}: its parameters must be a JSON Schema of an object; "
            f'write {{"type": "object", "properties": {{...}}}} (type is {spec.parameters.get("type")!r})'
        )
    try:
        Draft202012Validator.check_schema(json.loads(text), format_checker=_NO_FORMATS)
    except SchemaError as error:
        place = ".".join(("parameters", *map(str, error.path)))
        raise UserError(f"{where}: {place} is not valid JSON Schema: {error.message[:_SHOWN_CHARS]}") from None
    except RecursionError:
        raise UserError(f"{where}: its parameters are nested too deep; flatten them") from None
    for place, schema in _schemas(json.loads(text), "parameters"):
        _check_references(schema, spec, f"{where}: {place}")
        _check_patterns(schema, f"{where}: {place}")


def check_arguments(call: ToolCall, spec: ToolSpec) -> ToolCall:
    """Fit a call's arguments to the tool's schema.

    A string is turned into another type only where that loses nothing and the schema forbids the string: ``"3"`` and
    ``"3.0"`` become 3 for an integer, ``"true"`` becomes true for a boolean; ``"3.7"`` for an integer is an error.

    Returns:
        The call with the arguments as the tool gets them, or with ``error`` set: which argument, what was expected,
        what was given. A call that has an error already is returned as it is.
    """
    if call.error is not None:
        return call
    try:
        arguments = coerce(dict(call.arguments), spec.parameters)
        validator = _validator(json.dumps(spec.parameters, sort_keys=True))
        errors = sorted(validator.iter_errors(arguments), key=lambda error: [str(part) for part in error.path])
    except RecursionError:
        return replace(call, error=f"the arguments of {spec.name} are nested too deep")
    except Unresolvable as error:
        raise UserError(f"tool {spec.name!r}: a $ref of its parameters leads nowhere: {error}") from None
    if not errors:
        return replace(call, arguments=arguments)
    shown = "; ".join(_describe(error) for error in errors[:_SHOWN_ERRORS])
    more = f"; and {len(errors) - _SHOWN_ERRORS} more" if len(errors) > _SHOWN_ERRORS else ""
    return replace(call, arguments=arguments, error=f"the arguments do not fit {spec.name}: {shown}{more}")


def _schema_text(spec: ToolSpec, where: str) -> str:
    if not isinstance(spec.parameters, Mapping):
        raise UserError(f'{where}: its parameters must be a JSON Schema object; write {{"type": "object", ...}}')
    try:
        text = json.dumps(dict(spec.parameters), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{where}: its parameters are not JSON ({error}); use plain JSON values") from None
    if len(text) > MAX_SCHEMA_CHARS:
        raise UserError(f"{where}: its schema has {len(text)} characters, more than {MAX_SCHEMA_CHARS}; shorten it")
    return text


def _schemas(value: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object inside a schema (a superset of its subschemas), with where it stands."""
    waiting = [(place, value)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, dict):
            yield place, value
            waiting.extend((f"{place}.{key}", item) for key, item in value.items() if key not in ("enum", "const"))
        elif isinstance(value, list):
            waiting.extend((f"{place}.{index}", item) for index, item in enumerate(value))


def _check_references(schema: Mapping[str, Any], spec: ToolSpec, where: str) -> None:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return
    if not reference.startswith("#"):
        raise UserError(f"{where} has the $ref {reference[:80]!r}; nothing is fetched: put the schema under $defs")
    try:
        list(Draft202012Validator({**spec.parameters, "$ref": reference}, registry=Registry()).iter_errors(None))
    except (Unresolvable, RecursionError):
        raise UserError(f"{where}: the $ref {reference[:80]!r} leads nowhere; define it under $defs") from None


def _check_patterns(schema: Mapping[str, Any], where: str) -> None:
    named = schema.get("patternProperties")
    patterns = [schema.get("pattern"), *(named if isinstance(named, dict) else ())]
    for pattern in patterns:
        if not isinstance(pattern, str):
            continue
        try:
            regex.compile(pattern)
        except regex.error as error:
            raise UserError(f"{where}: {pattern[:80]!r} is no regular expression ({error}); correct it") from None


def _matches(pattern: str, text: str) -> bool | None:
    """Whether the pattern occurs in the text; ``None`` where finding out would take too long."""
    if len(text) > MAX_PATTERN_CHARS:
        return None
    try:
        return regex.search(pattern, text, timeout=PATTERN_TIMEOUT_S) is not None
    except TimeoutError:
        return None


def _pattern(_validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, str):
        return
    matches = _matches(pattern, value)
    if matches is None:
        yield ValidationError(f"is too long or too irregular to be matched against {pattern!r}; shorten it")
    elif not matches:
        yield ValidationError(f"must match the pattern {pattern!r}, got {value!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], value: Any, _schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    for pattern, schema in patterns.items():
        for key, item in value.items():
            if _matches(pattern, key):
                yield from validator.descend(item, schema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    for key, item in value.items():
        if key in known or any(_matches(pattern, key) for pattern in patterns):
            continue
        if allowed is False:
            names = ", ".join(known) or "none"
            yield ValidationError(f"has the unknown key {key!r}; the keys are: {names}")
        else:
            yield from validator.descend(item, allowed, path=key)


def _unique_items(_validator: Any, unique: Any, value: Any, _schema: Any) -> Iterator[ValidationError]:
    # jsonschema compares every pair where items cannot be sorted; this is linear
    if unique and isinstance(value, list) and len({_canonical(item) for item in value}) < len(value):
        yield ValidationError("must not contain the same item twice")


def _canonical(item: Any) -> str:
    """One text for equal JSON values (1 and 1.0 are equal, 1 and true are not)."""
    if isinstance(item, float) and item.is_integer():
        return str(int(item))
    if isinstance(item, list):
        return f"[{','.join(_canonical(part) for part in item)}]"
    if isinstance(item, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_canonical(item[key])}" for key in sorted(item)) + "}"
    return json.dumps(item)


_BOUNDED: dict[str, Any] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
_make_validator: Callable[..., Any] = validators.create(
    Draft202012Validator.META_SCHEMA, {**Draft202012Validator.VALIDATORS, **_BOUNDED}
)


@lru_cache(maxsize=256)
def _validator(schema_text: str) -> _Validator:
    validator: _Validator = _make_validator(json.loads(schema_text), registry=Registry())
    return validator


def _describe(error: ValidationError) -> str:
    expectation: Any = error.validator_value
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path).lstrip(".")
    subject = name[:80] or "the object"
    if error.validator == "type":
        expected = expectation if isinstance(expectation, str) else " or ".join(map(str, expectation))
        return f"{subject} must be {expected}, got {_shown(error.instance)}"
    if error.validator == "enum":
        choices = json.dumps(expectation, ensure_ascii=False)[:_SHOWN_CHARS]
        return f"{subject} must be one of {choices}, got {_shown(error.instance)}"
    if error.validator == "required":
        missing = [key for key in expectation if key not in cast(dict[str, Any], error.instance)]
        names = ", ".join(map(repr, missing))
        return f"{subject} lacks {names}" if name else f"{names} is missing"
    if error.validator in _BOUNDED:
        return f"{subject} {error.message[:_SHOWN_CHARS]}"
    return f"{subject}: {error.message[:_SHOWN_CHARS]}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return f"{text if len(text) <= 60 else text[:59] + '…'} ({kind_of(value)})"
