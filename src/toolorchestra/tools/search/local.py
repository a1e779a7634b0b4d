"""Search over a folder of one's own texts, as a tool."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolorchestra.errors import UserError
from toolorchestra.messages import ToolSpec
from toolorchestra.tools.base import CallContext
from toolorchestra.tools.describe import Fee, call_charges, check_tool_name
from toolorchestra.tools.search.corpus import read_folder
from toolorchestra.tools.search.index import Bm25Index, Hit, Index
from toolorchestra.trajectory import ToolResult

MAX_TOP_K = 20
_QUERY_CHARS = 2_000
_DESCRIPTION = "Searches a local collection of texts by keywords and returns the best passages with their sources."


class LocalSearch:
    """Finds passages of local texts by keyword.

    Args:
        index: What is searched.
        name: The tool's name.
        description: What the orchestrator is told about it.
        top_k: Passages a call, where the call does not say.
        collections: Names that a call may restrict the search to; offered as the argument ``collection``.
        query_from_question: Search for the task's question instead of a query of the orchestrator's (for one that is
            too small to write queries): the call then has no ``query``.
        latency_s: Simulated seconds a call, for a virtual clock; ``None`` takes the wall clock.
        fee: Seconds of a call → dollars, where the search costs something.

    Raises:
        UserError: A setting is out of bounds.
    """

    def __init__(
        self,
        index: Index,
        *,
        name: str = "local_search",
        description: str = _DESCRIPTION,
        top_k: int = 3,
        collections: Sequence[str] = (),
        query_from_question: bool = False,
        latency_s: float | None = None,
        fee: Fee | None = None,
    ) -> None:
        if not 1 <= top_k <= MAX_TOP_K:
            raise UserError(f"top_k of the tool {name!r} must be 1 to {MAX_TOP_K}, not {top_k}")
        parameters = _parameters(top_k, tuple(collections), query_from_question)
        self.spec = ToolSpec(check_tool_name(name), description, parameters)
        self._index = index
        self._top_k = top_k
        self._query_from_question = query_from_question
        self._latency_s = latency_s
        self._fee = fee

    @classmethod
    def from_folder(
        cls,
        path: str | Path,
        *,
        name: str = "local_search",
        description: str = _DESCRIPTION,
        top_k: int = 3,
        chunk_chars: int = 1_000,
        collections: bool = False,
        query_from_question: bool = False,
        latency_s: float | None = None,
        fee: Fee | None = None,
    ) -> LocalSearch:
        """Index a folder of ``.txt``, ``.md`` and ``.jsonl`` files (see :func:`read_folder`).

        With ``collections`` the names of its subfolders become what a call may restrict the search to.

        Raises:
            UserError: The folder is missing, empty or unreadable, or has no subfolder where ``collections`` needs some.
        """
        passages = read_folder(Path(path), chunk_chars=chunk_chars)
        names = sorted({passage.collection for passage in passages} - {""})
        if collections and not names:
            raise UserError(f"the search folder {path} has no subfolders with texts; leave out 'collections'")
        return cls(
            Bm25Index(passages),
            name=name,
            description=description,
            top_k=top_k,
            collections=names if collections else (),
            query_from_question=query_from_question,
            latency_s=latency_s,
            fee=fee,
        )

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Search. Finding nothing is a result; a search that could not be made is an error."""
        query = (context.question if self._query_from_question else arguments.get("query", "")).strip()
        if not query:
            return self._failed("the query is empty: say what to search for")
        top_k = max(1, min(MAX_TOP_K, arguments.get("top_k", self._top_k)))
        collection = arguments.get("collection")
        started = time.monotonic()
        try:
            # In a thread: a large index takes longer than other episodes should wait.
            hits = await asyncio.to_thread(self._index.search, query[:_QUERY_CHARS], top_k=top_k, collection=collection)
        except Exception as error:
            # Whatever broke, the model must not read it as "there is nothing to be found".
            return self._failed(f"the search could not be made ({type(error).__name__}: {error})")
        seconds = time.monotonic() - started if self._latency_s is None else self._latency_s
        return ToolResult(
            content=_render(hits, query, collection),
            charges=call_charges(self.spec.name, self._fee, seconds),
            latency_s=self._latency_s,
            data={"sources": [hit.passage.source for hit in hits], "scores": [hit.score for hit in hits]},
        )

    def _failed(self, reason: str) -> ToolResult:
        return ToolResult(f"{reason[0].upper()}{reason[1:]}.", latency_s=self._latency_s, error=reason)


def _parameters(top_k: int, collections: tuple[str, ...], query_from_question: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    if not query_from_question:
        properties["query"] = {"type": "string", "description": "Keywords of what is looked for."}
        properties["top_k"] = {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_TOP_K,
            "description": f"Number of passages ({top_k} if left out).",
        }
    if collections:
        properties["collection"] = {
            "type": "string",
            "enum": list(collections),
            "description": "Search only this collection.",
        }
    required = [] if query_from_question else ["query"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _render(hits: Sequence[Hit], query: str, collection: str | None) -> str:
    """The text that the model reads."""
    if not hits:
        where = f" in the collection {collection!r}" if collection else ""
        return f"Nothing{where} matches {query[:200]!r}. Try other words."
    blocks = (f"[{number}] {_head(hit)}\n{hit.passage.text}" for number, hit in enumerate(hits, 1))
    return "\n\n".join(blocks)


def _head(hit: Hit) -> str:
    title = hit.passage.title
    shown = f"{title} - " if title and not hit.passage.text.lstrip("# ").startswith(title) else ""
    return f"{shown}{hit.passage.source} (score {hit.score:.2f} of 1)"
