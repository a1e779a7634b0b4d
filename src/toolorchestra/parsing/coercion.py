"""Lossless coercion of arguments: a string becomes another JSON type only where the schema forbids the string."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from toolorchestra.parsing.call_json import CallSyntaxError, decode_object

_MAX_HOPS = 32
"""References that follow each other, at most."""
_MAX_NUMBER_CHARS = 400
_INTEGER = re.compile(r"-?[0-9]+(?:\.0+)?\Z")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?\Z")
_ALL_KINDS = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})


def coerce(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of ``arguments`` in which strings that the schema forbids are turned into what it wants, without loss.

    What cannot be turned stays as it is, for the validation to report.
    """
    value = _Coercion(schema).value(dict(arguments), schema)
    return value if isinstance(value, dict) else dict(arguments)


class _Coercion:
    """One walk over arguments and their schema. What a subschema allows is worked out once, so that time is linear."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._kinds_by_id: dict[int, frozenset[str]] = {}

    def value(self, value: Any, schema: Any) -> Any:
        """The coerced copy of a value."""
        schema = _resolve(schema, self._root)
        if not isinstance(schema, Mapping):
            return value
        kinds = self._kinds(schema)
        if isinstance(value, str) and "string" not in kinds:
            value = _from_string(value, kinds)
        if isinstance(value, float) and "integer" in kinds and "number" not in kinds and value.is_integer():
            return int(value)
        if isinstance(value, dict):
            return self._object(value, self._branch(schema, "object"))
        if isinstance(value, list):
            return self._array(value, self._branch(schema, "array"))
        return value

    def _object(self, value: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
        properties = schema.get("properties", {})
        rest = schema.get("additionalProperties")
        return {key: self.value(item, properties.get(key, rest)) for key, item in value.items()}

    def _array(self, value: list[Any], schema: Mapping[str, Any]) -> list[Any]:
        first = schema.get("prefixItems", ())
        rest = schema.get("items")
        return [self.value(item, first[index] if index < len(first) else rest) for index, item in enumerate(value)]

    def _kinds(self, schema: Any) -> frozenset[str]:
        """The JSON types that a schema may allow; everything where that cannot be told."""
        schema = _resolve(schema, self._root)
        if not isinstance(schema, Mapping):
            return _ALL_KINDS
        known = self._kinds_by_id.get(id(schema))
        if known is None:
            self._kinds_by_id[id(schema)] = _ALL_KINDS  # what a schema that contains itself sees
            known = self._kinds_by_id[id(schema)] = self._find_kinds(schema)
        return known

    def _find_kinds(self, schema: Mapping[str, Any]) -> frozenset[str]:
        kinds = _ALL_KINDS
        if "type" in schema:
            named = schema["type"]
            kinds &= {named} if isinstance(named, str) else set(named)
            if "number" in kinds:
                kinds |= {"integer"}
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if values is not None:
            kinds &= frozenset().union(*map(_kinds_of, values))
        for key in ("anyOf", "oneOf"):
            if key in schema:
                kinds &= frozenset().union(*map(self._kinds, schema[key]))
        for part in schema.get("allOf", ()):
            kinds &= self._kinds(part)
        return kinds

    def _branch(self, schema: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
        """The schema itself, or the only branch of its ``anyOf``/``oneOf`` that allows this kind of value."""
        for key in ("anyOf", "oneOf"):
            branches = [part for part in schema.get(key, ()) if kind in self._kinds(part)]
            if len(branches) == 1 and isinstance(only := _resolve(branches[0], self._root), Mapping):
                return only
        return schema


def _kinds_of(value: Any) -> frozenset[str]:
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, (int, float)):
        return frozenset({"number", "integer"} if float(value).is_integer() else {"number"})
    named = {str: "string", type(None): "null", list: "array", dict: "object"}
    return frozenset({named[type(value)]})


def _resolve(schema: Any, root: Mapping[str, Any]) -> Any:
    """Follow local references by JSON pointer; a reference that leads elsewhere yields ``None``."""
    for _ in range(_MAX_HOPS):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        schema = _pointed(str(schema["$ref"]), root)
    return None


def _pointed(reference: str, root: Mapping[str, Any]) -> Any:
    target: Any = root
    if reference != "#" and not reference.startswith("#/"):
        return None
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, Mapping) or name not in target:
            return None
        target = target[name]
    return target


def _from_string(text: str, kinds: frozenset[str]) -> Any:
    stripped = text.strip()
    if "boolean" in kinds and stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    if "null" in kinds and stripped == "null":
        return None
    if len(stripped) <= _MAX_NUMBER_CHARS and kinds & {"integer", "number"}:
        number = _number(stripped, kinds)
        if number is not None:
            return number
    if kinds & {"array", "object"} and stripped[:1] in ("[", "{"):
        return _structure(stripped, kinds)
    return text


def _number(text: str, kinds: frozenset[str]) -> int | float | None:
    if _INTEGER.match(text) is not None:
        return int(text.partition(".")[0])
    if "number" not in kinds or _NUMBER.match(text) is None:
        return None
    number = float(text)
    if not math.isfinite(number):
        return None
    try:
        lossless = Decimal(repr(number)) == Decimal(text)
    except InvalidOperation:
        return None
    return number if lossless else None


def _structure(text: str, kinds: frozenset[str]) -> Any:
    """The array or object that a string spells, or the string itself where it spells neither."""
    try:
        wrapped = decode_object(f'{{"value": {text}}}')
    except CallSyntaxError:
        return text
    kind = "array" if isinstance(wrapped["value"], list) else "object"
    return wrapped["value"] if kind in kinds and len(wrapped) == 1 else text
