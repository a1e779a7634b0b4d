"""The policy that asks a chat model: any model that can be called, behind an endpoint, recorded or simulated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from toolorchestra.errors import LimitReached
from toolorchestra.messages import Message, ToolSpec
from toolorchestra.models import AttemptsFailedError, ChatModel, ContextLengthError, Sampling, unpack_text
from toolorchestra.policies.base import Policy
from toolorchestra.tasks import Task
from toolorchestra.trajectory import ORCHESTRATOR, Action, Charge


@dataclass(frozen=True, slots=True)
class ChatPolicy:
    """Lets a chat model decide. It keeps no state, so that every episode shares it.

    What the model costs is charged to the orchestrator. Thinking that stands in the content (``<think>``) is moved to
    the reasoning, so that no later turn and no other model reads it; a ``<tool_call>`` there is a call, not an answer.

    Attributes:
        model: Who is asked.
        label: The name for trajectories and reports; the model's own by default.
        system: An instruction put before the conversation; it comes first in a system message that is there already.
        sampling: How replies are drawn.
    """

    model: ChatModel
    label: str = ""
    system: str = ""
    sampling: Sampling = field(default_factory=Sampling)

    @property
    def name(self) -> str:
        """The name that trajectories and reports carry."""
        return self.label or self.model.name

    def episode(self, task: Task, sample: int) -> Policy:
        """A policy for one episode: itself."""
        return self

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        """Ask the model.

        Raises:
            LimitReached: The conversation has outgrown the model's context (limit ``tokens``; a number that the server
                did not say is NaN).
            AttemptsFailedError: The infrastructure failed; what that cost is on it, as the orchestrator's.
            UserError: The user must act.
        """
        try:
            completion = await self.model.complete(self._prompt(history), tools=tools, sampling=self.sampling)
        except AttemptsFailedError as error:
            error.charges = _own(error.charges)
            raise
        except ContextLengthError as error:
            raise LimitReached("tokens", allowed=_known(error.allowed), used=_known(error.used)) from error
        message, finish_reason = unpack_text(
            completion.message, tools, finish_reason=completion.finish_reason, id_prefix=f"call_{len(history)}"
        )
        return Action(
            message=message,
            charges=_own(completion.charges),
            latency_s=completion.latency_s,
            finish_reason=finish_reason,
        )

    def _prompt(self, history: Sequence[Message]) -> Sequence[Message]:
        if not self.system:
            return history
        if history and history[0].role == "system":
            # Templates such as Qwen's take one system message only, at the start.
            return (replace(history[0], content=f"{self.system}\n\n{history[0].content}".strip()), *history[1:])
        return (Message("system", self.system), *history)


def _own(charges: Sequence[Charge]) -> tuple[Charge, ...]:
    return tuple(replace(charge, source=ORCHESTRATOR) for charge in charges)


def _known(tokens: int | None) -> float:
    return math.nan if tokens is None else tokens
