r"""The final answer inside a longer text: ``\boxed{…}``, ``#### …``, ``Answer: …`` or "the answer is …"."""

from __future__ import annotations

import re

MAX_ANSWER_CHARS = 20_000
"""Only the end of a longer answer is looked at: that is where the final answer stands."""

_LINE = re.compile(
    r"^[^\w\n]{0,8}(?:(?:the )?final )?answer[*_ \t]{0,4}:[*_]{0,4}[ \t]*(\S[^\n]*)$", re.IGNORECASE | re.MULTILINE
)
_HASHES = re.compile(r"^[ \t]*####[ \t]*(\S[^\n]*)$", re.MULTILINE)
_PHRASE = re.compile(r"\banswer (?:is|equals)\b:?[ \t]*(\S[^\n]*)", re.IGNORECASE)
_BOXED = "\\boxed{"


def final_answer(text: str) -> str | None:
    """The last marked answer in a text, or ``None`` where nothing is marked.

    A box wins over a marked line, a marked line over a phrase; of several of one kind the last one counts, since
    what stands before it is the way there.
    """
    text = text[-MAX_ANSWER_CHARS:]
    boxed = _boxed(text)
    if boxed is not None:
        return boxed
    for pattern in (_HASHES, _LINE, _PHRASE):
        found = pattern.findall(text)
        if found:
            return str(found[-1]).strip()
    return None


def _boxed(text: str) -> str | None:
    start = text.rfind(_BOXED)
    if start < 0:
        return None
    depth = 1
    for position in range(start + len(_BOXED), len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[start + len(_BOXED) : position].strip()
    return None
