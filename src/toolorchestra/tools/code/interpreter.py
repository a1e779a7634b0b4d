"""The code interpreter as a tool."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolorchestra.messages import ToolSpec
from toolorchestra.tools.base import CallContext
from toolorchestra.tools.code.base import CodeBackend, CodeLimits, CodeRun
from toolorchestra.tools.describe import Fee, call_charges, check_tool_name
from toolorchestra.trajectory import ToolResult

_DESCRIPTION = (
    "Runs Python code and returns what it prints and the value of its last expression. Exact for arithmetic, counting, "
    "dates and algorithms. Nothing is kept between calls; no network, no files."
)
_PARAMETERS = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "Python code. Print the result, or end with it."}},
    "required": ["code"],
    "additionalProperties": False,
}
_MEMO_ENTRIES = 1_024
_MIN_WALL_S = 0.1


class CodeInterpreter:
    """Runs a model's Python in a sandbox and hands back text.

    Args:
        backend: Where the code runs (see :func:`~toolorchestra.tools.code.choose_backend`).
        limits: What one call may use.
        name: The tool's name.
        description: What the orchestrator is told about it.
        latency_s: Simulated seconds a call, for a virtual clock; ``None`` takes the wall clock.
        fee: Seconds of a call → dollars, where the sandbox costs something.
        memo: Remember the results of the last thousand codes. Only for code whose result depends on nothing else:
            a remembered result also repeats its seconds.
    """

    def __init__(
        self,
        backend: CodeBackend,
        limits: CodeLimits | None = None,
        *,
        name: str = "code_interpreter",
        description: str = _DESCRIPTION,
        latency_s: float | None = None,
        fee: Fee | None = None,
        memo: bool = False,
    ) -> None:
        self.spec = ToolSpec(check_tool_name(name), description, _PARAMETERS)
        self.backend = backend
        self.limits = limits or CodeLimits()
        self._latency_s = latency_s
        self._fee = fee
        self._memo: OrderedDict[str, CodeRun] | None = OrderedDict() if memo else None

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Run ``arguments["code"]``; whatever it does is a result for the model."""
        code = arguments["code"]
        refusal = _refusal(code, self.limits)
        if refusal is not None:
            return ToolResult(f"The code was not run: {refusal}.", error=refusal, latency_s=self._latency_s)
        ran, remembered = await self._run(code, context)
        seconds = ran.wall_s if self._latency_s is None else self._latency_s
        return ToolResult(
            content=_content(ran),
            charges=call_charges(self.spec.name, self._fee, seconds),
            latency_s=seconds if remembered else self._latency_s,
            error=None if ran.status == "ok" else f"{ran.status}: {ran.reason}",
            data={
                "status": ran.status,
                "stdout": ran.stdout,
                "stderr": ran.stderr,
                "wall_s": ran.wall_s,
                "backend": self.backend.name,
            },
        )

    def close(self) -> None:
        """Stop what the sandbox keeps warm."""
        self.backend.close()

    async def _run(self, code: str, context: CallContext) -> tuple[CodeRun, bool]:
        """The run, and whether it was remembered rather than made."""
        if self._memo is not None and code in self._memo:
            self._memo.move_to_end(code)
            return self._memo[code], True
        ran = await self.backend.run(code, self._limits_for(context))
        # How far code gets within its limits depends on the machine's mood: only what ended by itself is kept.
        if self._memo is not None and ran.status in ("ok", "error"):
            self._memo[code] = ran
            if len(self._memo) > _MEMO_ENTRIES:
                self._memo.popitem(last=False)
        return ran, False

    def _limits_for(self, context: CallContext) -> CodeLimits:
        """The limits, cut to the time that the episode has left. On a virtual clock real seconds do not count."""
        if context.time_left_s is None or self._latency_s is not None or context.time_left_s >= self.limits.wall_s:
            return self.limits
        return replace(self.limits, wall_s=max(_MIN_WALL_S, context.time_left_s))


def _refusal(code: str, limits: CodeLimits) -> str | None:
    """Why this text cannot be code, if it cannot."""
    if not code.strip():
        return "it is empty"
    if len(code) > limits.code_chars:
        return f"it has {len(code)} characters, more than the {limits.code_chars} allowed"
    if "\0" in code:
        return "it contains a NUL character"
    try:
        code.encode()
    except UnicodeEncodeError:
        return "it contains half of a character (a lone surrogate)"
    return None


def _content(ran: CodeRun) -> str:
    """What the model reads."""
    parts = [ran.stdout.rstrip("\n")]
    if ran.stderr.strip():
        parts.append(ran.stderr.strip() if ran.status == "error" else f"[stderr]\n{ran.stderr.strip()}")
    if ran.status in ("timeout", "killed", "memory"):
        parts.append(f"The code did not finish: {ran.reason}.")
    elif ran.status == "error" and not ran.stderr.strip():
        parts.append(f"The code failed: {ran.reason}.")
    text = "\n".join(part for part in parts if part)
    return text or "(no output: print the result, or end with an expression)"
