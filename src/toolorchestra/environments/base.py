"""The world that an episode runs in."""

from __future__ import annotations

from typing import Protocol

from toolorchestra.trajectory import Action, Observation, Outcome, Trajectory


class Environment(Protocol):
    """One episode's world. A new one is made for every episode."""

    async def reset(self) -> Observation:
        """The first messages and the tools on offer."""
        ...

    async def step(self, action: Action) -> Observation:
        """Carry an action out: tool results, a user's reply, or the end."""
        ...

    async def score(self, trajectory: Trajectory) -> Outcome:
        """Judge the finished episode."""
        ...
