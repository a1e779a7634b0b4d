"""Arguments for a tool that a scripted policy calls, made from its schema and the question."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolorchestra.messages import ToolSpec

Chooser = Callable[[str, Sequence[Any]], Any]
"""Picks one of the values that an enumeration allows, given the parameter's name."""

_ARITHMETIC_NAMES = frozenset({"expression", "code", "formula"})
_MAX_QUESTION = 10_000
_MAX_DEPTH = 8
_WORDS = {
    "multiplied by": "*",
    "divided by": "/",
    "to the power of": "**",
    "plus": "+",
    "minus": "-",
    "times": "*",
    "modulo": "%",
    "mod": "%",
}
_WORD = re.compile(r"\b(?:" + "|".join(map(re.escape, _WORDS)) + r")\b", re.IGNORECASE)
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "^": "**"})
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_RUN = re.compile(r"[\d\s.+\-*/%()]+")
_NO_START = re.compile(r"\A(?:[\s*/%)]|\.(?!\d))+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def first_choice(name: str, values: Sequence[Any]) -> Any:
    """The chooser that takes the first value."""
    return values[0]


def arithmetic_in(question: str) -> str | None:
    """The longest arithmetic expression in a text, in Python's notation; ``None`` where there is none.

    Signs such as ``×`` and words such as ``times`` are translated, thousands separators dropped. The expression is
    only parsed here, never evaluated.
    """
    text = _DATE.sub("", question[:_MAX_QUESTION]).translate(_SIGNS)
    text = _WORD.sub(lambda word: _WORDS[word.group().lower()], text)
    runs = (_NO_START.sub("", " ".join(run.split())) for run in _RUN.findall(_THOUSANDS.sub("", text)))
    return max(filter(_computes, (run.rstrip(" .+-*/%(") for run in runs)), key=len, default=None)


def fill_arguments(
    spec: ToolSpec, question: str, *, choose: Chooser = first_choice, optional: Callable[[str], bool] | None = None
) -> dict[str, Any]:
    """Arguments that fit a tool's schema.

    Required parameters are filled: an enumeration by the chooser, ``expression`` and ``code`` with the arithmetic of
    the question where it has any, any other text with the question, a number with the first of the question that is in
    range. ``pattern``, ``format``, ``$ref`` and combinations beyond ``anyOf``/``oneOf`` are not looked at.

    Args:
        spec: The tool.
        question: The task's question.
        choose: Picks from an enumeration.
        optional: Whether to fill an optional parameter, by name; by default none is.
    """
    return _object(spec.parameters, question, choose, optional or (lambda name: False), 0)


def _object(
    schema: Mapping[str, Any], question: str, choose: Chooser, optional: Callable[[str], bool], depth: int
) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    properties: Mapping[str, Any] = schema.get("properties", {})
    names = [name for name in properties if name in required or optional(name)]
    return {name: _value(name, properties[name], question, choose, optional, depth + 1) for name in names}


def _value(name: str, schema: Any, question: str, choose: Chooser, optional: Callable[[str], bool], depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return question
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return choose(name, schema["enum"])
    if "default" in schema:
        return schema["default"]
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return _value(name, schema[key][0], question, choose, optional, depth + 1)
    kind = schema.get("type", "string")
    if not isinstance(kind, str):
        kind = next((item for item in kind if item != "null"), "null")
    if kind == "object":
        return _object(schema, question, choose, optional, depth)
    if kind == "array":
        count = schema.get("minItems", 0)
        item = schema.get("items", {})
        return [_value(name, item, question, choose, optional, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        return _number(schema, question, whole=kind == "integer")
    return {"boolean": False, "null": None}.get(kind, _text(name, schema, question))


def _text(name: str, schema: Mapping[str, Any], question: str) -> str:
    text = question
    if name in _ARITHMETIC_NAMES and (found := arithmetic_in(question)) is not None:
        text = f"print({found})" if name == "code" else found
    limit = schema.get("maxLength")
    return text if limit is None else text[: int(limit)]


def _number(schema: Mapping[str, Any], question: str, *, whole: bool) -> float:
    low, high = schema.get("minimum"), schema.get("maximum")
    for text in _NUMBER.findall(question[:_MAX_QUESTION]):
        number = float(text)
        if (not whole or number.is_integer()) and (low is None or number >= low) and (high is None or number <= high):
            return int(number) if whole else number
    fallback = low if low is not None else min(0, high) if high is not None else 0
    return int(fallback) if whole else float(fallback)


def _computes(text: str) -> bool:
    """Whether the text is an expression with at least one operation, by parsing it (digits and operators only)."""
    if len(text) > 1_000:
        return False
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.BinOp) for node in ast.walk(tree)) and not any(
        isinstance(node, (ast.Call, ast.Tuple)) for node in ast.walk(tree)
    )
