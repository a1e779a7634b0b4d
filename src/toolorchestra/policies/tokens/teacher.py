"""A scripted policy's decisions as the tokens that a trainable policy would have sampled: traces to learn from.

Every decision is walked through the same prompt, grammar and bridges as in sampling, so that what is learned is exactly
what will be chosen later. No model is run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolorchestra.errors import ModelFacingError
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.policies.base import Policy, PolicyFactory
from toolorchestra.policies.tokens.format import ChatFormat
from toolorchestra.policies.tokens.grammar import CALL_END, CALL_START, CallConstraint, Forced, Matcher, call_segments
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Action, AllowedTokens, SampledTurn, Step, Trajectory

_LONGEST_TOKEN = 32


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

    @property
    def virtual_clock(self) -> bool:
        """The teacher's own."""
        return bool(getattr(self.teacher, "virtual_clock", False))

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        """The teacher's action with its tokens.

        Raises:
            ModelFacingError: The teacher answered in text, or made several calls at once: neither is in the call
                grammar. The episode is then lost, not the run.
        """
        action = await self.teacher.act(history, tools)
        spoken = _spoken(action, history, tools, self._seen, self.factory.format, self.factory.matchers)
        self._seen = len(history) + 1
        return spoken


def with_tokens(trajectory: Trajectory, chat: ChatFormat, matchers: Callable[[str], Matcher]) -> Trajectory:
    """A finished rollout of a scripted policy, with the tokens of its turns: from its record, nothing is run again.

    Raises:
        ModelFacingError: A turn is not exactly one call that the grammar allows.
    """
    history, tools, seen = list(trajectory.start), trajectory.tools, 0
    steps: list[Step] = []
    for step in trajectory.steps:
        steps.append(replace(step, action=_spoken(step.action, tuple(history), tools, seen, chat, matchers)))
        seen = len(history) + 1
        history.append(step.action.message)
        if step.observation is not None:
            history.extend(step.observation.messages)
            tools = step.observation.tools
    return replace(trajectory, steps=tuple(steps))


def _spoken(
    action: Action,
    history: Sequence[Message],
    tools: Sequence[ToolSpec],
    seen: int,
    chat: ChatFormat,
    matchers: Callable[[str], Matcher],
) -> Action:
    """An action with the tokens that say it, after the first ``seen`` messages were said."""
    calls = action.message.tool_calls
    if len(calls) != 1:
        raise ModelFacingError(
            f"the teacher made {len(calls)} calls in a turn; traces for constrained decoding need exactly one"
        )
    context = chat.bridge(history[:seen], history[seen:], tools, closed=True) if seen else None
    continues = context is not None
    if context is None:
        context = chat.prompt(history, tools)
    constraint = CallConstraint(call_segments(tools), chat.encode, matchers, chat.end)
    call = _in_schema_order(calls[0], tools)
    return replace(action, tokens=write_call(constraint, chat, call, context, continues=continues))


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
    plan: list[int] = []  # tokens to come; followed where it can be, since a character may be several tokens
    while (need := constraint.need()) is not None:
        if isinstance(need, Forced):
            chosen: tuple[int, ...] = need.ids
        else:
            if not plan or not _allows(need.allowed, plan[0]):
                plan = _plan(need.allowed, target[len(chat.decode(ids)) :], chat)
            if not plan:
                raise _unfit(call)
            chosen = (plan[0],)
        plan = plan[len(chosen) :] if tuple(plan[: len(chosen)]) == chosen else []
        ids += chosen
        sampled += [not isinstance(need, Forced)] * len(chosen)
        allowed += [None if isinstance(need, Forced) else need.allowed] * len(chosen)
        constraint.commit(chosen)
    if chat.decode(ids) != target:  # what was forced is not what the teacher meant
        raise _unfit(call)
    return SampledTurn(tuple(context), tuple(ids), (0.0,) * len(ids), tuple(sampled), tuple(allowed), continues)


def _plan(allowed: AllowedTokens, rest: str, chat: ChatFormat) -> list[int]:
    """The text's tokens in the usual way or, where that is not allowed, those of its longest beginning that is."""
    for size in (len(rest), *range(min(len(rest) - 1, _LONGEST_TOKEN), 0, -1)):
        ids = chat.encode(rest[:size])
        if ids and _allows(allowed, ids[0]):
            return ids
    return []


def _allows(allowed: AllowedTokens, token: int) -> bool:
    return (token in allowed.ids) == allowed.only


def _unfit(call: ToolCall) -> ModelFacingError:
    return ModelFacingError(f"the call {call.name}({dict(call.arguments)}) does not fit the tools on offer")


def _in_schema_order(call: ToolCall, tools: Sequence[ToolSpec]) -> ToolCall:
    """The call with its arguments in the order in which the grammar writes them."""
    schema = next((tool.parameters for tool in tools if tool.name == call.name), {})
    return replace(call, arguments=_ordered(call.arguments, schema))


def _ordered(value: Any, schema: Any) -> Any:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(properties, Mapping):
        return value
    names = [*(name for name in properties if name in value), *(name for name in value if name not in properties)]
    return {name: _ordered(value[name], properties.get(name)) for name in names}
