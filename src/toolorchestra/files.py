"""Files that survive a kill: append-only JSON Lines, and whole files replaced in one piece."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any

from toolorchestra.errors import UserError
from toolorchestra.redaction import hide_known


class JsonLines:
    """A file of JSON objects, one a line, that is only appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def append(self, value: Mapping[str, Any]) -> None:
        """Write one object in one piece, so that a kill leaves it whole, torn at the end of the file, or absent."""
        if self._file is None:
            self.repair()
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        left = memoryview(_encoded(value) + b"\n")
        while left:
            left = left[os.write(self._file, left) :]

    def read(self) -> Iterator[dict[str, Any]]:
        """The objects, in order. No file is no objects; a torn last line is dropped.

        Raises:
            UserError: Another line is no JSON object. The message names it.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                yield _decoded(line, where=f"{self.path}:{number}")

    def repair(self) -> int:
        """Cut a torn last line off; how many bytes that were. Call it only while nobody else appends."""
        try:
            file = self.path.open("r+b")
        except FileNotFoundError:
            return 0
        with file:
            size = file.seek(0, os.SEEK_END)
            whole = _end_of_last_line(file.fileno(), size)
            if whole < size:
                file.truncate(whole)
            return size - whole

    def close(self) -> None:
        """Let the file go, after the disk has everything."""
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file so that there is always either the old one or the new one, whole, even through a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        # A temporary file is private; what it becomes is as readable as any other file of this user.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def to_json_text(value: Any) -> str:
    """Compact JSON, without this process's secrets.

    Money and paths become strings, and so does what only has a ``repr``: a record is never lost over one value.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    return hide_known(text)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value) if isinstance(value, (Decimal, PurePath)) else repr(value)[:500]


def _encoded(value: Mapping[str, Any]) -> bytes:
    text = to_json_text(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair, as models write it at times, has no UTF-8 form; as a JSON escape it survives.
        return json.dumps(json.loads(text)).encode()


def _decoded(line: bytes, *, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not valid JSON ({error}); remove the line") from None
    if not isinstance(value, dict):
        raise UserError(f"{where}: not a JSON object; remove the line")
    return value


def _end_of_last_line(file: int, size: int, block: int = 65_536) -> int:
    """The position just after the last newline."""
    end = size
    while end > 0:
        start = max(0, end - block)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
