"""What happened in an episode: actions, charges, tool results, the outcome. One record a line on disk.

These are the nouns that every other part exchanges. A trajectory holds all that rewards, reports and training need;
nothing is recomputed from text afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.pricing import Usage

ORCHESTRATOR = "orchestrator"

Status = Literal["done", "limit", "missing"]
"""How an episode ended: by itself, by a limit, or lost to an infrastructure failure (missing data, never a zero)."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Money and time that one attempt cost. Every attempt that returned usage has one, failed or not.

    Attributes:
        source: Who spent it: ``orchestrator``, or the name of the tool or model that was called.
        usd: Exact dollars; ``None`` where the price is unknown (never 0 by default).
        latency_s: Seconds of this attempt.
        usage: The tokens, where there were any.
        price: Which price was used, with its date, for the record.
        note: Anything worth saying, such as ``retry 1 of 3``.
    """

    source: str
    usd: Decimal | None
    latency_s: float = 0.0
    usage: Usage | None = None
    price: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class AllowedTokens:
    """The tokens that a grammar allowed at one position: the listed ones (``only``), or all but those (``all_but``).

    Attributes:
        only: Whether ``ids`` lists what is allowed (else it lists what is forbidden).
        ids: Token ids, ascending.
    """

    only: bool
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """The exact tokens of one turn of a trainable policy. All sequences below but ``context_ids`` have one length.

    Attributes:
        context_ids: The tokens put before this turn's own: the whole prompt where ``continues`` is false, else only
            what was added since the previous turn's last token (tool results, role headers).
        ids: The turn's own tokens.
        logprobs: Log-probabilities of the distribution that was sampled from; 0 where nothing was chosen.
        sampled: True where the policy chose the token; false where a grammar forced it or the harness added it.
        allowed: Where a grammar restricted the choice, what it allowed; ``None`` for a free choice.
        continues: Whether this turn extends the previous turn's tokens (false after a history rewrite).
        policy_version: Number of optimiser updates that the sampling weights had seen.
        temperature: Of the sampling; the log-probabilities include it.
    """

    context_ids: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    sampled: tuple[bool, ...]
    allowed: tuple[AllowedTokens | None, ...]
    continues: bool = True
    policy_version: int = 0
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Action:
    """What the policy decided in one turn.

    Attributes:
        message: The assistant's message as parsed. With tool calls it acts; without, its content is the answer.
        charges: What deciding cost.
        latency_s: Seconds of deciding: simulated where ``virtual``, else ``None`` and the loop's clock counts.
        tokens: The exact tokens, for a trainable policy.
        finish_reason: ``stop``, ``tool_calls`` or ``length``.
    """

    message: Message
    charges: tuple[Charge, ...] = ()
    latency_s: float | None = None
    tokens: SampledTurn | None = None
    finish_reason: str = "stop"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one call returned.

    Attributes:
        content: What the model reads; for a failure, the readable error.
        charges: What the call cost, retries included.
        latency_s: Recorded or simulated seconds; ``None`` means that the caller's clock counts.
        error: Set where the tool failed: a short reason.
        data: Plain values for the environment and the report that the model does not see.
    """

    content: str
    charges: tuple[Charge, ...] = ()
    latency_s: float | None = None
    error: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One executed (or refused) call and its result. ``latency_s`` is always known here."""

    call: ToolCall
    result: ToolResult
    latency_s: float


@dataclass(frozen=True, slots=True)
class Observation:
    """What the environment shows the policy.

    Attributes:
        messages: New messages, appended to the history.
        tools: The tools on offer for the next turn.
        calls: The calls that were carried out to get here.
        latency_s: Seconds of the step; parallel calls count once.
        charges: What the environment itself spent outside tool calls (a simulated user, say).
        done: Whether the episode is over.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    calls: tuple[CallRecord, ...] = ()
    latency_s: float = 0.0
    charges: tuple[Charge, ...] = ()
    done: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether the task was solved.

    Attributes:
        solved: ``None`` where nobody could say (the judge abstained): the rollout is then not usable.
        answer: The final answer, if one was given.
        judge: Which verifier decided.
        reason: Why, in a few words.
        charges: What judging cost. It is reported apart and is not part of the trajectory's cost.
    """

    solved: bool | None
    answer: str | None = None
    judge: str = ""
    reason: str = ""
    charges: tuple[Charge, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One turn: the action, and the observation that it led to (``None`` if the episode ended before one)."""

    action: Action
    action_latency_s: float
    observation: Observation | None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode, whole.

    Attributes:
        task_id: The task.
        sample: The number of this rollout among those of its task.
        group: Rollouts with the same group are compared with each other.
        policy: The name of who decided.
        start: The first messages.
        tools: The tools that were on offer at the start.
        steps: The turns.
        outcome: Set when the environment scored the episode.
        status: ``done``, ``limit`` or ``missing``.
        limit: Which limit ended it, where one did.
        forced_answer: Whether the last answer was demanded, without tools.
        error: For ``missing``, what broke.
        kind: The task's kind, for breakdowns.
        wall_s: Real seconds that running it took here (not the latency that is scored).
        info: Plain values for reports (split, preference, prices).
    """

    task_id: str
    sample: int
    group: str
    policy: str
    start: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    steps: tuple[Step, ...] = ()
    outcome: Outcome | None = None
    status: Status = "done"
    limit: str | None = None
    forced_answer: bool = False
    error: str | None = None
    kind: str = ""
    wall_s: float = 0.0
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge, in order: the orchestrator's own and those of all calls, failed attempts included."""
        charges: list[Charge] = []
        for step in self.steps:
            charges.extend(step.action.charges)
            if step.observation is not None:
                charges.extend(step.observation.charges)
                for record in step.observation.calls:
                    charges.extend(record.result.charges)
        return tuple(charges)

    @property
    def cost_usd(self) -> Decimal | None:
        """Dollars of all charges; ``None`` as soon as one of them is unknown."""
        return total_usd(self.charges)

    @property
    def latency_s(self) -> float:
        """Seconds of the whole episode, deciding included; calls made in parallel count once."""
        observed = (step.observation.latency_s for step in self.steps if step.observation is not None)
        return sum(step.action_latency_s for step in self.steps) + sum(observed)

    @property
    def calls(self) -> Counter[str]:
        """Number of calls by tool name. Malformed calls were not carried out and are not counted."""
        records = (record for step in self.steps if step.observation for record in step.observation.calls)
        return Counter(record.call.name for record in records if record.call.error is None)

    @property
    def malformed_calls(self) -> int:
        """Number of calls that could not be read or did not fit the tool's schema."""
        return sum(call.error is not None for step in self.steps for call in step.action.message.tool_calls)

    @property
    def solved(self) -> bool | None:
        """The outcome's verdict; ``None`` where there is none."""
        return None if self.outcome is None else self.outcome.solved

    @property
    def answer(self) -> str | None:
        """The final answer, if one was given."""
        return None if self.outcome is None else self.outcome.answer

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation."""
        history = list(self.start)
        for step in self.steps:
            history.append(step.action.message)
            if step.observation is not None:
                history.extend(step.observation.messages)
        return tuple(history)


def without_tokens(trajectory: Trajectory) -> Trajectory:
    """The trajectory without its sampled tokens, which only training reads: what it did and cost stays."""
    steps = tuple(replace(step, action=replace(step.action, tokens=None)) for step in trajectory.steps)
    return replace(trajectory, steps=steps)


def total_usd(charges: Sequence[Charge]) -> Decimal | None:
    """Sum of dollars, exactly; ``None`` as soon as one charge is unknown."""
    total = Decimal(0)
    for charge in charges:
        if charge.usd is None:
            return None
        total += charge.usd
    return total
