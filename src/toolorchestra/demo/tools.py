"""The tools of the demo market besides its models: a calculator and a search, both at simulated prices and seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from toolorchestra.demo.bank import COLLECTIONS, corpus_folder
from toolorchestra.demo.roles import SIMULATED
from toolorchestra.messages import ToolSpec
from toolorchestra.tools import Bm25Index, CallContext, CodeInterpreter, read_folder
from toolorchestra.trajectory import Charge, ToolResult

_SUM = re.compile(r"[(\d][\d +*()/-]*[\d)]")
_OPERATOR = re.compile(r" [+*/-] ")

_PASSAGE_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Expression:
    """The code interpreter as a calculator: one expression, really run in the sandbox.

    A model of 0.1B parameters miscopies numbers, so its argument is a choice among the sums that stand in the question.

    Attributes:
        name: Its name in this task.
        description: What the orchestrator is told about it.
        interpreter: What runs the expression.
        question: What is asked.
        usd: Fee of a call.
        latency_s: Simulated seconds of a call.
    """

    name: str
    description: str
    interpreter: CodeInterpreter
    question: str
    usd: Decimal
    latency_s: float

    @property
    def spec(self) -> ToolSpec:
        """One argument, ``expression``; none where the question holds no sum."""
        choices = expressions(self.question)
        if not choices:
            return ToolSpec(self.name, self.description)
        return ToolSpec(self.name, self.description, _one_argument("expression", {"type": "string", "enum": choices}))

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Compute ``arguments["expression"]``. What cannot be computed is an error of one line, without a traceback."""
        charges = (Charge(self.name, self.usd, self.latency_s, price=SIMULATED),)
        if "expression" not in arguments:
            return ToolResult("There is no sum in the question.", charges, self.latency_s)
        ran = await self.interpreter.call({"code": arguments["expression"]}, context)
        content = ran.content if ran.error is None else f"Error: {ran.error}"
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
        """Find the passage. Finding nothing is a result too: whoever submits it learns that it was of no use."""
        hits = self.index.search(context.question, top_k=1, collection=arguments["collection"])
        charges = (Charge(self.name, self.usd, self.latency_s, price=SIMULATED),)
        if not hits:
            return ToolResult("Nothing found.", charges, self.latency_s)
        passage = hits[0].passage
        text = " ".join(passage.text.removeprefix("#").split())
        return ToolResult(text, charges, self.latency_s, data={"source": passage.source, "score": hits[0].score})


def expressions(question: str) -> list[str]:
    """The sums that stand in a text, and what is left of each without its first or its last term."""
    found: list[str] = []
    for match in _SUM.finditer(question):
        whole = match.group().strip()
        operators = list(_OPERATOR.finditer(whole))
        if operators:
            found.append(whole)
        if len(operators) > 1 and "(" not in whole:
            found += [whole[operators[0].end() :], whole[: operators[-1].start()]]
    return list(dict.fromkeys(found))


def corpus_index() -> Bm25Index:
    """The index of the bundled corpus. Building it takes some milliseconds; share it between episodes."""
    return Bm25Index(read_folder(corpus_folder(), chunk_chars=_PASSAGE_CHARS))


def _one_argument(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
