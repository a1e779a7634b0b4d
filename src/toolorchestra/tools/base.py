"""What a tool that can be called looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolorchestra.messages import Message, ToolSpec
from toolorchestra.trajectory import ToolResult


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool may know about the episode besides its arguments.

    Attributes:
        question: The task's question, for tools that answer it without being told it again.
        history: The conversation so far.
        sample: The rollout's number: recorded and simulated answers differ by it.
        time_left_s: Seconds until the episode's limit; ``None`` for no limit.
    """

    question: str = ""
    history: Sequence[Message] = ()
    sample: int = 0
    time_left_s: float | None = None


class Tool(Protocol):
    """Something that the orchestrator can call."""

    @property
    def spec(self) -> ToolSpec:
        """What the orchestrator is told about it."""
        ...

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Carry the call out. The arguments fit the schema already.

        A failure that the model can react to is a result with ``error`` set, or a raised ``ModelFacingError``.
        A ``RetryableError`` that leaves here makes the whole rollout missing data.
        """
        ...
