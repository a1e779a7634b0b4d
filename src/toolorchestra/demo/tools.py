"""The tools of the demo market besides its models: a calculator and a search, both at simulated prices and seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from toolorchestra.demo.bank import COLLECTIONS, corpus_folder
from toolorchestra.demo.roles import SIMULATED
from toolorchestra.messages import ToolSpec
from toolorchestra.tools import Bm25Index, CallContext, CodeInterpreter, read_folder
from toolorchestra.trajectory import Charge, ToolResult

EXPRESSION_PATTERN = "^[0-9+*()/ -]{1,40}$"

_PASSAGE_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Expression:
    """The code interpreter as a calculator: one expression, really run in the sandbox.

    Attributes:
        name: Its name in this task.
        description: What the orchestrator is told about it.
        interpreter: What runs the expression.
        usd: Fee of a call.
        latency_s: Simulated seconds of a call.
    """

    name: str
    description: str
    interpreter: CodeInterpreter
    usd: Decimal
    latency_s: float

    @property
    def spec(self) -> ToolSpec:
        """One argument, ``expression``."""
        argument = {"type": "string", "pattern": EXPRESSION_PATTERN}
        return ToolSpec(self.name, self.description, _one_argument("expression", argument))

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Compute ``arguments["expression"]``. What cannot be computed is an error of one line, without a traceback."""
        ran = await self.interpreter.call({"code": arguments["expression"]}, context)
        content = ran.content if ran.error is None else f"Error: {ran.error}"
        charges = (Charge(self.name, self.usd, self.latency_s, price=SIMULATED),)
        return replace(ran, content=content, charges=charges, latency_s=self.latency_s)


@dataclass(frozen=True, slots=True)
class Passages:
    """The search over the bundled corpus: the best passage of one collection for the task's question.

    Attributes:
        name: Its name in this task.
        description: What the orchestrator is told about it.
        index: What is searched.
        usd: Fee of a call.
        latency_s: Simulated seconds of a call.
    """

    name: str
    description: str
    index: Bm25Index
    usd: Decimal
    latency_s: float

    @property
    def spec(self) -> ToolSpec:
        """One argument, ``collection``; the query is the question itself."""
        argument = {"type": "string", "enum": list(COLLECTIONS)}
        return ToolSpec(self.name, self.description, _one_argument("collection", argument))

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Find the passage. Finding nothing is a result too, but none that could be submitted."""
        hits = self.index.search(context.question, top_k=1, collection=arguments["collection"])
        charges = (Charge(self.name, self.usd, self.latency_s, price=SIMULATED),)
        if not hits:
            return ToolResult("Nothing found.", charges, self.latency_s, error="nothing found")
        passage = hits[0].passage
        text = " ".join(passage.text.removeprefix("#").split())
        return ToolResult(text, charges, self.latency_s, data={"source": passage.source, "score": hits[0].score})


def corpus_index() -> Bm25Index:
    """The index of the bundled corpus. Building it takes some milliseconds; share it between episodes."""
    return Bm25Index(read_folder(corpus_folder(), chunk_chars=_PASSAGE_CHARS))


def _one_argument(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
