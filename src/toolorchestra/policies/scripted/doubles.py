"""Policies for tests: a fixed list of actions, or any function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from toolorchestra.errors import UserError
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.policies.base import Policy
from toolorchestra.policies.scripted.moves import act
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Action

Move = Action | Message | ToolCall | str
"""An action, or what one is made of: a message, a single call, or the text of an answer."""

Decide = Callable[[Sequence[Message], Sequence[ToolSpec]], Move | Awaitable[Move]]


def to_action(move: Move) -> Action:
    """The action that a move stands for."""
    if isinstance(move, Action):
        return move
    if isinstance(move, ToolCall):
        return act(Message("assistant", tool_calls=(move,)))
    return act(Message("assistant", move) if isinstance(move, str) else move)


@dataclass(frozen=True, slots=True)
class Scripted:
    """Plays the same moves in every episode.

    Attributes:
        moves: What to do, turn by turn.
        name: For trajectories and reports.
    """

    moves: Sequence[Move]
    name: str = "scripted"

    def episode(self, task: Task, sample: int) -> Policy:
        """The policy of one episode, at the first move."""
        return _ScriptedEpisode(tuple(map(to_action, self.moves)))


class _ScriptedEpisode:
    def __init__(self, actions: tuple[Action, ...]) -> None:
        self._actions = actions
        self._played = 0

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        if self._played >= len(self._actions):
            raise UserError(f"the script has {len(self._actions)} moves and the episode goes on: add one that answers")
        self._played += 1
        return self._actions[self._played - 1]


@dataclass(frozen=True, slots=True)
class FunctionPolicy:
    """Decides by a function of the history and the tools on offer, plain or asynchronous.

    Attributes:
        decide: The function.
        name: For trajectories and reports.
    """

    decide: Decide
    name: str = "function"

    def episode(self, task: Task, sample: int) -> Policy:
        """The policy itself: a function keeps no state."""
        return self

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        """What the function decides."""
        move = self.decide(history, tools)
        return to_action(await move if inspect.isawaitable(move) else move)
