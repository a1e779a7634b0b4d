"""An episode as the report shows it, turn by turn. All text in it is untrusted and bounded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from toolorchestra.evaluation.formatting import UNKNOWN, dollars, safe_text, seconds
from toolorchestra.evaluation.report_data import Example
from toolorchestra.rewards import verdict
from toolorchestra.trajectory import Charge, Step, Trajectory, total_usd

_MAX_TURNS = 30


@dataclass(frozen=True, slots=True)
class CallView:
    """A call and what came back."""

    name: str
    arguments: str
    result: str
    failed: bool
    cost: str


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn."""

    number: int
    reasoning: str
    content: str
    calls: Sequence[CallView]
    replies: Sequence[str]
    cost: str


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """One episode."""

    title: str
    note: str
    verdict: str
    system: str
    instruction: str
    question: str
    turns: Sequence[TurnView]
    turns_left_out: int
    answer: str
    expected: str
    reason: str
    cost: str


def episode_view(example: Example) -> EpisodeView:
    """Prepare an episode for the page."""
    trajectory = example.trajectory
    system = [message.content for message in trajectory.start if message.role == "system"]
    user = [message.content for message in trajectory.start if message.role != "system"]
    heading = " · ".join(part for part in (trajectory.kind, trajectory.task_id) if part)
    outcome = trajectory.outcome
    return EpisodeView(
        title=safe_text(example.title or heading, 120),
        note=safe_text(example.note, 400),
        verdict=_verdict(trajectory),
        system=safe_text(trajectory.policy, 60),
        instruction=safe_text("\n\n".join(system), 12_000),
        question=safe_text("\n\n".join(user)),
        turns=[_turn(step, number) for number, step in enumerate(trajectory.steps[:_MAX_TURNS], start=1)],
        turns_left_out=max(0, len(trajectory.steps) - _MAX_TURNS),
        answer=safe_text(trajectory.answer or ""),
        expected=safe_text(example.expected),
        reason=safe_text(outcome.reason if outcome is not None else trajectory.error or "", 400),
        cost=_cost(trajectory.charges, trajectory.latency_s),
    )


def _turn(step: Step, number: int) -> TurnView:
    message, observation = step.action.message, step.observation
    records = {record.call.id: record for record in observation.calls} if observation is not None else {}
    calls = []
    for call in message.tool_calls:
        record = records.get(call.id)
        arguments = call.raw if call.error is not None else json.dumps(dict(call.arguments), ensure_ascii=False)
        result = record.result.content if record is not None else call.error or "(not carried out)"
        failed = call.error is not None or record is None or record.result.error is not None
        cost = _cost(record.result.charges, record.latency_s) if record is not None else ""
        calls.append(CallView(safe_text(call.name, 80), safe_text(arguments), safe_text(result), failed, cost))
    replies = [m.content for m in observation.messages if m.role != "tool"] if observation is not None else []
    return TurnView(
        number=number,
        reasoning=safe_text(message.reasoning),
        content=safe_text(message.content),
        calls=calls,
        replies=[safe_text(reply) for reply in replies],
        cost=_cost(step.action.charges, step.action_latency_s),
    )


def _verdict(trajectory: Trajectory) -> str:
    if trajectory.status == "missing":
        return "missing"
    return {True: "right", False: "wrong", None: "no verdict"}[verdict(trajectory)]


def _cost(charges: Sequence[Charge], latency_s: float) -> str:
    usd = total_usd(charges)
    money = f"cost {UNKNOWN}" if usd is None else dollars(float(usd))
    return f"{money}, {seconds(latency_s)}"
