"""YAML as text: the schema, not the file's grammar, decides what a scalar is.

YAML 1.1 reads ``1e-6`` as text, ``no`` as false and ``1:30`` as ninety. Here every scalar stays the text that the user
wrote (only an empty one or ``null`` is ``None``) and each setting's type turns it into a number, a switch or a name.
Lines are remembered for error messages; a key that stands twice is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from toolorchestra.errors import UserError

Location = tuple[str | int, ...]

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 40
MAX_NODES = 200_000
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file as read.

    Attributes:
        name: The file's name for messages.
        values: Mappings, lists, text and ``None``.
        lines: The line of each key or list item, by its path.
    """

    name: str
    values: Any
    lines: dict[Location, int] = field(default_factory=dict)

    def line(self, location: Location) -> int | None:
        """The line of a setting, or of the nearest section around it."""
        for length in range(len(location), 0, -1):
            if location[:length] in self.lines:
                return self.lines[location[:length]]
        return None if location else self.lines.get(())


def read_yaml(path: Path) -> Document:
    """Read a YAML file without interpreting its scalars.

    Raises:
        UserError: The file is missing, too large, no YAML, holds a key twice, or is nested without end.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; create it or give another path")
    if path.stat().st_size > MAX_BYTES:
        raise UserError(f"{path}: larger than {MAX_BYTES // 1024**2} MiB; settings are small: is this the right file?")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None
    return parse_yaml(text, name=path.name)


def parse_yaml(text: str, *, name: str) -> Document:
    """Read YAML text; ``name`` stands for the file in messages.

    Raises:
        UserError: As :func:`read_yaml`.
    """
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UserError(f"{name}: not valid YAML: {where}{error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{name}: not valid YAML: {str(error) or 'nested too deeply'}") from None
    document = Document(name, None)
    values = None if node is None else _Reader(document).value(node, ())
    return Document(name, values, document.lines)


class _Reader:
    """Turns YAML nodes into plain values, with bounds on depth and (aliases expand) on the number of nodes."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._nodes = 0

    def value(self, node: yaml.Node, location: Location) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES or len(location) > MAX_DEPTH:
            raise UserError(f"{self._where(node)}: too many or too deeply nested values; are its aliases a loop?")
        self._document.lines.setdefault(location, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*location, index)) for index, item in enumerate(node.value)]
        plain = isinstance(node, yaml.ScalarNode) and node.style is None
        return None if plain and node.value in _NULLS else self._text(node)

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise UserError(f"{self._where(key_node)}: a key must be a word, not a list or a section")
            key = self._text(key_node)
            if key == "<<" and key_node.style is None:
                merged = self._merge(value_node, location) | merged
                continue
            line = key_node.start_mark.line + 1
            if key in own:
                raise UserError(
                    f"{self._where(key_node)}: the key {key!r} stands on line {lines[key]} already; keep one of the two"
                )
            lines[key] = line
            self._document.lines[*location, key] = line
            own[key] = self.value(value_node, (*location, key))
        return merged | own

    def _merge(self, node: yaml.Node, location: Location) -> dict[str, Any]:
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in nodes:
            if not isinstance(part, yaml.MappingNode):
                raise UserError(f"{self._where(node)}: '<<' merges sections only; give it *name of a section")
            self._nodes += 1
            if len(location) > MAX_DEPTH or self._nodes > MAX_NODES:
                raise UserError(f"{self._where(node)}: '<<' merges a section into itself")
            merged = self.value(part, (*location, "<<")) | merged
        return merged

    def _text(self, node: yaml.Node) -> str:
        """The scalar, with characters that JSON escapes as two halves (surrogates) put together."""
        text = str(node.value)
        if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text):
            return text
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise UserError(f"{self._where(node)}: holds half a character (a lone surrogate); write it whole") from None

    def _where(self, node: yaml.Node) -> str:
        return f"{self._document.name}: line {node.start_mark.line + 1}"
