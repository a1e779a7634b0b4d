"""Text of unknown size, kept in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

_MAX_DEPTH = 50


class BoundedText:
    """The beginning and the end of a stream; what lies between is counted and dropped.

    Args:
        limit: Bytes that are kept.
        head: The share of them that the beginning gets.
    """

    def __init__(self, limit: int, *, head: float = 0.75) -> None:
        self._head_size = int(limit * head)
        self._tail_size = limit - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Append to the stream."""
        self.total += len(data)
        room = self._head_size - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: len(self._tail) - self._tail_size]

    def text(self) -> str:
        """What was kept, with a mark where something is missing. Bytes that are no UTF-8 are replaced."""
        dropped = self.total - len(self._head) - self._tail_size
        if dropped <= 0:
            return (self._head + self._tail).decode(errors="replace")
        tail = self._tail[len(self._tail) - self._tail_size :]
        mark = f"\n... [{dropped} bytes left out] ...\n"
        return self._head.decode(errors="replace") + mark + tail.decode(errors="replace")


def bounded_repr(value: Any, limit: int) -> str:
    """The ``repr`` of plain data, never longer than ``limit`` characters or so, in time bounded by it.

    A small value that contains itself many times over would be exponentially long, and a deep one would exhaust the
    stack: both are cut with ``...``. No method of an object of unknown type is called.
    """
    parts: list[str] = []
    _write(value, parts, limit, 0)
    return "".join(parts)


def _write(value: Any, parts: list[str], room: int, depth: int) -> int:
    """Append the repr of ``value`` to ``parts``; returns the room that is left."""
    if room <= 0 or depth > _MAX_DEPTH:
        return _put("...", parts, room)
    kind = type(value)
    if kind is list:
        return _items(value, "[", "]", parts, room, depth)
    if kind is tuple:
        return _items(value, "(", ",)" if len(value) == 1 else ")", parts, room, depth)
    if kind in (set, frozenset) and value:
        return _items(value, "{", "}", parts, room, depth)
    if kind is dict:
        return _pairs(value, parts, room, depth)
    if kind in (str, bytes):
        return _put(repr(value if len(value) <= room else value[:room]), parts, room)
    if kind in (int, float, complex, bool, type(None), set, frozenset):
        return _put(repr(value), parts, room)
    return _put(f"<{kind.__name__}>", parts, room)


def _put(text: str, parts: list[str], room: int) -> int:
    parts.append(text)
    return room - len(text)


def _items(values: Sequence[Any] | Set[Any], start: str, end: str, parts: list[str], room: int, depth: int) -> int:
    room = _put(start, parts, room)
    for index, value in enumerate(values):
        if index:
            room = _put(", ", parts, room)
        room = _write(value, parts, room, depth + 1)
        if room <= 0:
            break
    return _put(end, parts, room)


def _pairs(values: Mapping[Any, Any], parts: list[str], room: int, depth: int) -> int:
    room = _put("{", parts, room)
    for index, (key, value) in enumerate(values.items()):
        if index:
            room = _put(", ", parts, room)
        room = _write(key, parts, room, depth + 1)
        room = _put(": ", parts, room)
        room = _write(value, parts, room, depth + 1)
        if room <= 0:
            break
    return _put("}", parts, room)
