"""A scripted policy's decisions as the tokens that a trainable policy would have sampled: traces to learn from.

Every decision is walked through the same prompt, grammar and bridges as in sampling, so that what is learned is exactly
what will be chosen later. No model is run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from toolorchestra.errors import ModelFacingError
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.policies.base import Policy, PolicyFactory
from toolorchestra.policies.tokens.format import ChatFormat
from toolorchestra.policies.tokens.grammar import CALL_END, CALL_START, CallConstraint, Forced, Matcher, call_segments
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Action, AllowedTokens, SampledTurn


@dataclass(frozen=True, slots=True)
class TeacherFactory:
    """Wraps a scripted policy.

    Attributes:
        teacher: Decides; one call a turn.
        format: The learner's format.
        matchers: The learner's grammars.
    """

    teacher: PolicyFactory
    format: ChatFormat
    matchers: Callable[[str], Matcher]

    @property
    def name(self) -> str:
        """The teacher's own name."""
        return self.teacher.name

    def episode(self, task: Task, sample: int) -> TeacherPolicy:
        """One episode."""
        return TeacherPolicy(self, self.teacher.episode(task, sample))


@dataclass(slots=True)
class TeacherPolicy:
    """One episode. See :class:`TeacherFactory`."""

    factory: TeacherFactory
    teacher: Policy
    _seen: int = 0

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        """The teacher's action with its tokens.

        Raises:
            ModelFacingError: The teacher answered in text, or made several calls at once: neither is in the call
                grammar. The episode is then lost, not the run.
        """
        action = await self.teacher.act(history, tools)
        calls = action.message.tool_calls
        if len(calls) != 1:
            raise ModelFacingError(
                f"the teacher {self.factory.name!r} made {len(calls)} calls in a turn; traces for constrained decoding "
                "need exactly one"
            )
        chat = self.factory.format
        context: list[int] | None = None
        continues = self._seen > 0
        if continues:
            context = chat.bridge(history[: self._seen], history[self._seen :], tools, closed=True)
        if context is None:
            context, continues = chat.prompt(history, tools), False
        self._seen = len(history) + 1
        constraint = CallConstraint(call_segments(tools), chat.encode, self.factory.matchers, chat.end)
        return replace(action, tokens=write_call(constraint, chat, calls[0], context, continues=continues))


def write_call(
    constraint: CallConstraint, chat: ChatFormat, call: ToolCall, context: Sequence[int], *, continues: bool
) -> SampledTurn:
    """The tokens of a call under its grammar.

    Raises:
        ModelFacingError: The grammar does not allow the call; the teacher's episode is then lost, not the run.
    """
    target = f'{CALL_START}{call.name}", "arguments": {json.dumps(dict(call.arguments), ensure_ascii=False)}{CALL_END}'
    ids: list[int] = []
    sampled: list[bool] = []
    allowed: list[AllowedTokens | None] = []
    while (need := constraint.need()) is not None:
        if isinstance(need, Forced):
            chosen: tuple[int, ...] = need.ids
        else:
            rest = target[len(chat.decode(ids)) :]
            chosen = (_next_token(need.allowed, rest, chat, call),)
        ids += chosen
        sampled += [not isinstance(need, Forced)] * len(chosen)
        allowed += [None if isinstance(need, Forced) else need.allowed] * len(chosen)
        constraint.commit(chosen)
    return SampledTurn(tuple(context), tuple(ids), (0.0,) * len(ids), tuple(sampled), tuple(allowed), continues)


def _next_token(allowed: AllowedTokens, rest: str, chat: ChatFormat, call: ToolCall) -> int:
    usual = chat.encode(rest)[0] if rest else None
    if usual is not None and (usual in allowed.ids) == allowed.only:
        return usual
    fitting = [
        (len(text), token)
        for token in (allowed.ids if allowed.only else ())
        if (text := chat.decode([token])) and rest.startswith(text)
    ]
    if not fitting:
        raise ModelFacingError(f"the call {call.name}({dict(call.arguments)}) does not fit the tools on offer")
    return max(fitting)[1]
