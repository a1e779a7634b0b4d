"""A folder of texts → passages of a size that a model can read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolorchestra.errors import UserError

SUFFIXES = (".txt", ".md", ".jsonl")
_TEXT_KEYS = ("text", "contents", "content")
_BREAK = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document.

    Attributes:
        source: Where it comes from: the file's path below the folder, with the line for JSON Lines.
        text: The piece.
        title: The document's title, where it has one.
        collection: The subfolder that it lies in; ``""`` for the folder itself.
    """

    source: str
    text: str
    title: str = ""
    collection: str = ""


def read_folder(folder: Path, *, chunk_chars: int) -> tuple[Passage, ...]:
    """Every passage of the ``.txt``, ``.md`` and ``.jsonl`` files below a folder, in the order of their paths.

    A line of a ``.jsonl`` file is an object with ``text`` (or ``contents``, ``content``) and perhaps ``title`` and
    ``id``. Hidden files are left out.

    Raises:
        UserError: The folder is missing or holds no text, or a file cannot be read; names it and the line.
    """
    if not folder.is_dir():
        raise UserError(f"the search folder {folder} does not exist; give a folder of {', '.join(SUFFIXES)} files")
    files = sorted((path for path in folder.rglob("*") if _wanted(path, folder)), key=lambda path: path.as_posix())
    passages = tuple(passage for path in files for passage in _read_file(path, folder, chunk_chars))
    if not passages:
        raise UserError(f"the search folder {folder} holds no text; put {', '.join(SUFFIXES)} files into it")
    return passages


def chunk_text(text: str, size: int) -> list[str]:
    """Cut a text into pieces of at most ``size`` characters, at paragraphs where possible.

    Short neighbours share a piece; a paragraph that is too long is cut between sentences, then words, then anywhere.
    A Markdown heading begins a new piece, so that it stays with what it heads.
    """
    chunks: list[str] = []
    for paragraph in _BREAK.split(text.strip()):
        for piece in _cut(paragraph.strip(), size):
            fits = chunks and len(chunks[-1]) + len(piece) + 2 <= size
            if fits and not piece.startswith("#"):
                chunks[-1] += "\n\n" + piece
            elif piece:
                chunks.append(piece)
    return chunks


def _wanted(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in SUFFIXES and not hidden and path.is_file()


def _read_file(path: Path, folder: Path, chunk_chars: int) -> Iterator[Passage]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as UTF-8 text: {error}") from error
    name = path.relative_to(folder).as_posix()
    collection = name.partition("/")[0] if "/" in name else ""
    if path.suffix.lower() == ".jsonl":
        yield from _read_lines(text, path, name, collection, chunk_chars)
        return
    title = _heading(text) if path.suffix.lower() == ".md" else ""
    for number, chunk in enumerate(chunk_text(text, chunk_chars), 1):
        yield Passage(f"{name}#{number}", chunk, title, collection)


def _read_lines(text: str, path: Path, name: str, collection: str, chunk_chars: int) -> Iterator[Passage]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where} is not JSON: {error}") from error
        body = _body(record)
        if body is None:
            raise UserError(f"{where} must be an object with the key 'text' (a string)")
        source = f"{name}:{record.get('id', number)}"
        for chunk in chunk_text(body, chunk_chars):
            yield Passage(source, chunk, str(record.get("title") or ""), collection)


def _body(record: Any) -> str | None:
    if not isinstance(record, dict):
        return None
    body = next((record[key] for key in _TEXT_KEYS if key in record), None)
    return body if isinstance(body, str) else None


def _heading(text: str) -> str:
    first = text.lstrip().partition("\n")[0]
    return first.lstrip("#").strip() if first.startswith("#") else ""


def _cut(paragraph: str, size: int) -> Iterator[str]:
    """Pieces of one paragraph, each at most ``size`` long."""
    piece = ""
    for sentence in _SENTENCE_END.split(paragraph) if len(paragraph) > size else [paragraph]:
        if piece and len(piece) + 1 + len(sentence) > size:
            yield piece
            piece = ""
        piece = f"{piece} {sentence}" if piece else sentence
        while len(piece) > size:
            space = piece.rfind(" ", 1, size + 1)
            end = space if space > 0 else size
            yield piece[:end]
            piece = piece[end:].lstrip()
    if piece:
        yield piece
