"""One episode: reset, act, step, …, score, within its limits. ``rollout`` runs many of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from toolorchestra.errors import LimitReached, RetryableError, UserError
from toolorchestra.limits import Limits, Spent
from toolorchestra.messages import Message, ToolSpec
from toolorchestra.redaction import describe_error, describe_traceback
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Action, Observation, Outcome, Step, Trajectory

if TYPE_CHECKING:
    from toolorchestra.environments.base import Environment
    from toolorchestra.policies.base import Policy

NO_ANSWER = "no valid answer: the last message has neither content nor tool calls"
FORCED_ANSWER = "The limit on {limit} is reached. Give your final answer now, without calling any tool."
NOT_CARRIED_OUT = "Error: not carried out, since the limit on {limit} is reached"
_GRACE_S = 1.0

logger = logging.getLogger(__name__)


@runtime_checkable
class TimeLimited(Protocol):
    """An environment that wants to know how long its next step may take.

    Attributes:
        time_left_s: Set by the loop before every step: seconds left, ``None`` for no limit.
    """

    time_left_s: float | None


async def run_episode(
    policy: Policy,
    environment: Environment,
    *,
    task: Task,
    sample: int,
    group: str,
    policy_name: str,
    limits: Limits,
) -> Trajectory:
    """Run one episode to its end and score it.

    A policy or environment that has an ``aclose()`` coroutine is closed whatever happens. A policy whose attribute
    ``virtual_clock`` is true reports simulated seconds and is not cut short by real ones. An error that carries
    ``charges`` (and, from a step, ``calls``) leaves them on the trajectory.

    Returns:
        The trajectory: ``done``, ended by a ``limit``, or ``missing`` with the error where the infrastructure or an
        unexpected exception broke it. What was spent until then is on it.

    Raises:
        UserError: The user must act: no other episode would fare better.
    """
    began = time.perf_counter()
    episode = _Episode(policy, environment, limits, blank_trajectory(task, sample, group, policy_name))
    try:
        await episode.run()
    finally:
        await _close(policy)
        await _close(environment)
    return replace(episode.trajectory(), wall_s=time.perf_counter() - began)


def blank_trajectory(task: Task, sample: int, group: str, policy_name: str) -> Trajectory:
    """A trajectory in which nothing has happened yet. ``info`` keeps the split, the preference and varying prices."""
    info: dict[str, Any] = {"split": task.split, "preference": task.preference.to_json()}
    if "prices" in task.setting:
        info["prices"] = task.setting["prices"]
    return Trajectory(task_id=task.id, sample=sample, group=group, policy=policy_name, kind=task.kind, info=info)


def lost(trajectory: Trajectory, error: Exception) -> Trajectory:
    """The trajectory as missing data: why is on it and, for an error that nobody expected, in the log."""
    words = describe_error(error)
    details = "" if isinstance(error, RetryableError) else f"\n{describe_traceback(error)}"
    logger.warning("task %s, sample %d is missing: %s%s", trajectory.task_id, trajectory.sample, words, details)
    return replace(trajectory, status="missing", error=words)


class _Episode:
    """A running episode. What it has cost is on ``steps`` at any moment, whatever happens next."""

    def __init__(self, policy: Policy, environment: Environment, limits: Limits, blank: Trajectory) -> None:
        self.steps: list[Step] = []
        self._blank = blank
        self._policy = policy
        self._environment = environment
        self._time_limited = environment if isinstance(environment, TimeLimited) else None
        self._forced_answer_wanted = limits.forced_answer
        self._spent = Spent(limits)
        self._history: list[Message] = []
        self._opening = Observation()
        self._tools: tuple[ToolSpec, ...] = ()

    def trajectory(self) -> Trajectory:
        """What has happened so far."""
        return replace(self._blank, steps=tuple(self.steps))

    async def run(self) -> None:
        """Play and score. Only a user's error and a cancellation leave here."""
        try:
            try:
                await self._play()
            except LimitReached as reached:
                self._blank = replace(self._blank, status="limit", limit=reached.limit)
                await self._demand_answer(reached)
            self._blank = replace(self._blank, outcome=await self._score())
        except UserError:
            raise
        except Exception as error:
            self._blank = lost(self._blank, error)

    async def _play(self) -> None:
        opening = await self._environment.reset()
        self._opening = Observation(charges=opening.charges, latency_s=opening.latency_s)
        self._spent.add(opening.charges, opening.latency_s)
        self._blank = replace(self._blank, start=opening.messages, tools=opening.tools)
        self._history.extend(opening.messages)
        self._tools = opening.tools
        done = opening.done
        while not done:
            self._spent.check_turns()
            action = await self._act(self._tools)
            if _is_empty(action.message):
                return
            if action.message.tool_calls:
                self._spent.check_budgets()
            done = await self._step(action)

    async def _act(self, tools: Sequence[ToolSpec]) -> Action:
        left_s = None if getattr(self._policy, "virtual_clock", False) else self._spent.seconds_left
        began = time.perf_counter()
        try:
            async with asyncio.timeout(left_s) as clock:
                action = await self._policy.act(tuple(self._history), tools)
        except Exception as error:
            charges, waited_s = getattr(error, "charges", ()), time.perf_counter() - began
            out_of_time = isinstance(error, TimeoutError) and clock.expired()
            if charges or out_of_time:
                # The money is gone and the user has waited: that stays, in a turn in which nothing was said.
                self._add_step(Action(Message("assistant"), charges, finish_reason="length"), waited_s)
            if out_of_time:
                raise self._spent.out_of_time(waited_s) from None
            raise
        latency_s = time.perf_counter() - began if action.latency_s is None else action.latency_s
        self._add_step(action, latency_s)
        self._history.append(action.message)
        self._spent.add_turn(action.charges, latency_s)
        return action

    async def _step(self, action: Action) -> bool:
        """Carry the action out; whether the episode is over."""
        left_s = self._spent.seconds_left
        if self._time_limited is not None:
            self._time_limited.time_left_s = left_s
            # It stops its own calls and keeps their records; the loop's clock is there in case it fails to.
            left_s = None if left_s is None else left_s + _GRACE_S
        began = time.perf_counter()
        try:
            async with asyncio.timeout(left_s) as clock:
                observation = await self._environment.step(action)
        except Exception as error:
            waited_s = time.perf_counter() - began
            calls, charges = getattr(error, "calls", ()), getattr(error, "charges", ())
            self._observe(Observation(calls=calls, charges=charges, latency_s=waited_s))
            if isinstance(error, TimeoutError) and clock.expired():
                raise self._spent.out_of_time(waited_s) from None
            raise
        self._observe(observation)
        self._history.extend(observation.messages)
        self._tools = observation.tools
        self._spent.add(observation.charges, observation.latency_s)
        for record in observation.calls:
            self._spent.add(record.result.charges, 0.0)
        return observation.done

    def _add_step(self, action: Action, latency_s: float) -> None:
        self.steps.append(Step(action, latency_s, None))
        if len(self.steps) == 1 and (self._opening.charges or self._opening.latency_s):
            # Charges live on steps: what the reset cost goes to the first one.
            self._observe(self._opening)

    def _observe(self, observation: Observation) -> None:
        """Put an observation on the last step, after what stands there already."""
        last = self.steps[-1]
        if last.observation is not None:
            observation = _joined(last.observation, observation)
        self.steps[-1] = replace(last, observation=observation)

    async def _demand_answer(self, reached: LimitReached) -> None:
        """The forced last answer, where it is wanted and there is a conversation and time to answer in."""
        if not self._forced_answer_wanted or reached.limit == "seconds" or not self.steps:
            return
        last = self.steps[-1]
        heard = {message.tool_call_id for message in last.observation.messages} if last.observation else set()
        words = NOT_CARRIED_OUT.format(limit=reached.limit)
        # Chat APIs refuse a conversation in which a call has no result.
        unheard = (call for call in last.action.message.tool_calls if call.id not in heard)
        refusals = (Message("tool", words, tool_call_id=call.id, name=call.name or None) for call in unheard)
        messages = (*refusals, Message("user", FORCED_ANSWER.format(limit=reached.limit)))
        self._observe(Observation(messages=messages))
        self._history.extend(messages)
        self._blank = replace(self._blank, forced_answer=True)
        with contextlib.suppress(LimitReached):
            action = await self._act(())
            if action.message.content.strip() and not action.message.tool_calls:
                await self._step(action)

    async def _score(self) -> Outcome:
        trajectory = self.trajectory()
        if trajectory.status == "done" and self.steps and _is_empty(self.steps[-1].action.message):
            return Outcome(solved=False, reason=NO_ANSWER)
        try:
            return await self._environment.score(trajectory)
        except Exception as error:
            charges = getattr(error, "charges", ())
            if charges:
                self._blank = replace(self._blank, outcome=Outcome(None, reason="judging failed", charges=charges))
            raise


def _is_empty(message: Message) -> bool:
    return not message.tool_calls and not message.content.strip()


def _joined(first: Observation, second: Observation) -> Observation:
    return Observation(
        messages=first.messages + second.messages,
        tools=second.tools,
        calls=first.calls + second.calls,
        latency_s=first.latency_s + second.latency_s,
        charges=first.charges + second.charges,
        done=second.done,
    )


async def _close(thing: object) -> None:
    """Await ``aclose()`` where there is one. Its failure is logged: the episode is over and stays what it was."""
    close = getattr(thing, "aclose", None)
    if close is None:
        return
    try:
        await close()
    except Exception as error:
        logger.warning("closing %s failed:\n%s", type(thing).__name__, describe_traceback(error))
