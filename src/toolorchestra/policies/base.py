"""Who decides: the protocol of every policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolorchestra.messages import Message, ToolSpec
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Action


class Policy(Protocol):
    """Decides the next action from the conversation so far."""

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        """Call tools, or answer (a message without tool calls)."""
        ...


class PolicyFactory(Protocol):
    """Makes the policy of one episode, so that a policy may keep state (a cache, a random stream) per episode."""

    @property
    def name(self) -> str:
        """The name that trajectories and reports carry."""
        ...

    def episode(self, task: Task, sample: int) -> Policy:
        """A policy for one episode. If it has an ``aclose()`` coroutine, the loop awaits it at the end."""
        ...
