"""Decoding under the grammar of the tools on offer.

A call is cut into literals, which are appended without a decoding step, and real choices: the tool's name, the values
of an enumeration, which optional argument comes next. The alternatives of a choice are compared in their usual
tokenisation, so that one wish is one token path and not many. Values that are no finite choice (free strings,
numbers, nested objects) are decoded under their JSON schema by llguidance.

The log-probability of a choice is that of the distribution over what was allowed; the trainer uses the same sets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolorchestra.errors import UserError
from toolorchestra.messages import ToolSpec
from toolorchestra.trajectory import AllowedTokens

CALL_START = '<tool_call>\n{"name": "'
CALL_END = "}\n</tool_call>"
MAX_FREE_TOKENS = 512
"""Bound on one free value, so that no grammar runs for ever. A turn that reaches it is cut there."""

# What _arguments knows of an argument object, and what says nothing about its form.
_KNOWN_KEYS = {"type", "properties", "required", "additionalProperties", "$defs", "definitions"}
_NOTES = {"title", "description", "default", "examples", "deprecated", "$schema", "$comment"}
_REFERENCE = re.compile(r'"\$ref": "(?!#/(?:\$defs|definitions)/)')


class Matcher(Protocol):
    """Follows one free value through its grammar, token by token."""

    def allowed(self) -> AllowedTokens:
        """What may come next within the value."""
        ...

    def allows(self, token: int) -> bool:
        """Whether the value may go on with this token."""
        ...

    def forced(self) -> tuple[int, ...]:
        """The tokens that the value must go on with, in their usual tokenisation; empty where there is a choice."""
        ...

    def commit(self, token: int) -> None:
        """Take a token."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the value could end here."""
        ...

    @property
    def over(self) -> bool:
        """Whether the value must end here."""
        ...


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that is forced."""

    text: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """A finite choice: texts, each with what follows it."""

    options: tuple[tuple[str, Segments], ...]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The rest of an argument object: which of the remaining properties comes next, or its end.

    Attributes:
        properties: The remaining properties and their schemas, in the schema's order.
        required: Names that may not be left out.
        definitions: The root schema's shared definitions.
        first: Whether nothing was written yet (no comma is due).
    """

    properties: tuple[tuple[str, Any], ...]
    required: frozenset[str]
    definitions: Mapping[str, Any]
    first: bool


@dataclass(frozen=True, slots=True)
class FreeValue:
    """A JSON value that is decoded freely under its schema (as JSON text)."""

    schema: str


Segment = Literal | OneOf | Arguments | FreeValue
Segments = tuple[Segment, ...]


def call_segments(tools: Sequence[ToolSpec]) -> Segments:
    """The grammar of one Hermes call to any of the tools.

    Raises:
        UserError: No tool is on offer.
    """
    if not tools:
        raise UserError("constrained decoding needs at least one tool on offer; this turn has none")
    options = tuple(_tool_option(tool) for tool in tools)
    return (Literal(CALL_START), OneOf(options), Literal(CALL_END))


def _tool_option(tool: ToolSpec) -> tuple[str, Segments]:
    """A tool's name and its arguments: property by property, or freely where the schema ties them together."""
    opening = f'{tool.name}", "arguments": '
    schema = json.dumps(dict(tool.parameters), ensure_ascii=False)
    unknown = set(tool.parameters) - _KNOWN_KEYS - _NOTES
    unlisted = set(tool.parameters.get("required") or ()) - set(tool.parameters.get("properties") or ())
    if unknown or unlisted or _REFERENCE.search(schema):
        return opening, (FreeValue(schema),)
    return opening + "{", (_arguments(tool),)


def _arguments(tool: ToolSpec) -> Arguments:
    named: Mapping[str, Any] = tool.parameters.get("properties") or {}
    properties = {name: {} if schema is True else schema for name, schema in named.items() if schema is not False}
    definitions = {key: tool.parameters[key] for key in ("$defs", "definitions") if key in tool.parameters}
    required = frozenset(tool.parameters.get("required") or ())
    return Arguments(tuple(properties.items()), required, definitions, first=True)


def finite_values(schema: Any, *, most: int = 256) -> tuple[str, ...] | None:
    """The JSON texts of a schema with few values (enum, const, boolean, null, a short integer range), else ``None``."""
    if not isinstance(schema, Mapping):
        return None
    if "const" in schema:
        return (json.dumps(schema["const"], ensure_ascii=False),)
    if "enum" in schema:
        return tuple(dict.fromkeys(json.dumps(value, ensure_ascii=False) for value in schema["enum"])) or None
    kind = schema.get("type")
    if kind == "boolean":
        return ("true", "false")
    if kind == "null":
        return ("null",)
    low, high = schema.get("minimum"), schema.get("maximum")
    plain = not set(schema) & {"multipleOf", "exclusiveMinimum", "exclusiveMaximum", "not", "anyOf", "oneOf", "allOf"}
    if kind == "integer" and isinstance(low, int) and isinstance(high, int) and 0 <= high - low < most and plain:
        return tuple(str(value) for value in range(low, high + 1))
    return None


def _value(schema: Any, definitions: Mapping[str, Any]) -> Segment:
    texts = finite_values(schema)
    if texts is not None:
        return OneOf(tuple((text, ()) for text in texts))
    return FreeValue(json.dumps({**schema, **definitions}, ensure_ascii=False))


def _next_arguments(arguments: Arguments) -> list[Segments]:
    """Every way to go on: the next property that is written, or the closing brace if nothing required is left."""
    ways: list[Segments] = []
    for index, (name, schema) in enumerate(arguments.properties):
        key = ("" if arguments.first else ", ") + json.dumps(name, ensure_ascii=False) + ": "
        rest = Arguments(arguments.properties[index + 1 :], arguments.required, arguments.definitions, first=False)
        ways.append((Literal(key), _value(schema, arguments.definitions), rest))
        if name in arguments.required:
            return ways
    return [*ways, (Literal("}"),)]


Option = tuple[str, Segments]


def _expand(segments: Segments) -> list[Option]:
    """The texts that may come next, each with what follows, literals joined as far as they reach.

    An option with an empty text begins with a free value.
    """
    if not segments:
        return [("", ())]
    head, rest = segments[0], segments[1:]
    if isinstance(head, Literal):
        return [_join(head.text, rest)]
    if isinstance(head, OneOf):
        return [_join(text, (*following, *rest)) for text, following in head.options]
    if isinstance(head, Arguments):
        ways = _next_arguments(head)
        return [option for way in ways for option in _expand((*way, *rest))]
    return [("", segments)]


def _join(text: str, rest: Segments) -> Option:
    following = _expand(rest)
    if len(following) == 1:
        more, after = following[0]
        return text + more, after
    return text, rest


@dataclass(frozen=True, slots=True)
class Forced:
    """Tokens without a choice."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pick:
    """A choice that the policy has to make."""

    allowed: AllowedTokens


Need = Forced | Pick | None
"""What comes next in a turn; ``None`` when the turn is complete."""


@dataclass(slots=True)
class CallConstraint:
    """Walks one call through its grammar: ask :meth:`need`, then :meth:`commit` what was appended or chosen.

    A free value that grows past ``MAX_FREE_TOKENS`` ends the turn there, without its end token: the call is then
    malformed, as one that a length limit cuts is.

    Attributes:
        segments: The call's grammar.
        encode: Text to token ids, without special tokens.
        matcher: Makes the matcher of a free value's schema.
        end: The token that closes the turn.
    """

    segments: Segments
    encode: Callable[[str], Sequence[int]]
    matcher: Callable[[str], Matcher]
    end: int
    _paths: list[tuple[tuple[int, ...], Segments]] = field(default_factory=list)
    _free: Matcher | None = None
    _after_free: Segments = ()
    _free_tokens: int = 0
    _state: str = "start"

    def need(self) -> Need:
        """The tokens that are forced now, or the choice that is due."""
        if self._state == "start":
            self._state = "call"
            self._open(self.segments)
        if self._state == "end":
            return Forced((self.end,))
        if self._state == "done":
            return None
        if self._free is not None:
            return self._need_free(self._free)
        following = sorted({path[0] for path, _ in self._paths})
        if len(following) > 1:
            return Pick(AllowedTokens(only=True, ids=tuple(following)))
        return Forced(_common([path for path, _ in self._paths]))

    def commit(self, ids: Sequence[int]) -> None:
        """Take the tokens that :meth:`need` forced, or the one that was chosen.

        Raises:
            ValueError: A token is neither.
        """
        for token in ids:
            if self._state == "done":  # cut: what else was forced counts no more
                return
            if self._state == "end":
                self._state = "done"
            elif self._free is not None and self._free.allows(token):
                self._commit_free(self._free, token)
            else:
                if self._free is not None:
                    self._free = None
                    self._open(self._after_free)
                self._paths = [(path[1:], rest) for path, rest in self._paths if path[0] == token]
                if not self._paths:
                    raise ValueError(f"the token {token} is not allowed here")
                self._settle()

    def _need_free(self, free: Matcher) -> Need:
        if not free.complete:
            forced = free.forced()
            return Forced(forced) if forced else Pick(free.allowed())
        allowed = free.allowed()
        # A number, say, may go on or end: what follows it competes with its own continuation.
        ends = {self.encode(text)[0] for text, _ in _expand(self._after_free)}
        if allowed.only:
            return Pick(AllowedTokens(only=True, ids=tuple(sorted(ends | set(allowed.ids)))))
        return Pick(AllowedTokens(only=False, ids=tuple(token for token in allowed.ids if token not in ends)))

    def _commit_free(self, free: Matcher, token: int) -> None:
        free.commit(token)
        self._free_tokens += 1
        if free.over:
            self._free = None
            self._open(self._after_free)
        elif self._free_tokens >= MAX_FREE_TOKENS:
            self._free = None
            self._state = "done"

    def _open(self, segments: Segments) -> None:
        if not segments:
            self._state = "end"
            return
        if isinstance(segments[0], FreeValue):
            self._free, self._free_tokens = self.matcher(segments[0].schema), 0
            self._after_free = segments[1:]
            return
        self._paths = [(tuple(self.encode(text)), rest) for text, rest in _expand(segments)]

    def _settle(self) -> None:
        """Open what follows a finished alternative. One that others continue ("1", "12") is replaced by its sequels."""
        if len(self._paths) == 1:
            path, rest = self._paths[0]
            if not path:
                self._paths = []
                self._open(rest)
            return
        settled: list[tuple[tuple[int, ...], Segments]] = []
        for path, rest in self._paths:
            if path:
                settled.append((path, rest))
            else:
                settled.extend((tuple(self.encode(text)), after) for text, after in _expand(rest) if text)
        self._paths = settled


def _common(paths: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    common: list[int] = []
    for column in zip(*paths, strict=False):
        if len(set(column)) > 1:
            break
        common.append(column[0])
    return tuple(common)
