"""Trajectories as JSON, one record each, and back without loss.

A record says nothing twice. Dollars are strings. What equals its default is left out; besides:

- ``tools`` stands on an observation only where the offer changed;
- an observation's ``calls`` name the action's call by its position, and a tool message that repeats a call's result
  names that result (``{"result": position, "before": text put before it}``);
- of a sampled turn, ``sampled`` is a string of ``0`` and ``1``, and the grammar's sets stand once each, with the
  positions at which they applied (``[[position, set], …]``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from typing import Any

from toolorchestra.errors import UserError
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.pricing import Usage
from toolorchestra.trajectory import (
    Action,
    AllowedTokens,
    CallRecord,
    Charge,
    Observation,
    Outcome,
    SampledTurn,
    Step,
    ToolResult,
    Trajectory,
)

VERSION = 1
_USAGE_FIELDS = tuple(field.name for field in fields(Usage))


def trajectory_to_json(trajectory: Trajectory) -> dict[str, Any]:
    """A plain object for :func:`trajectory_from_json`.

    Raises:
        ValueError: The sequences of a sampled turn have different lengths.
    """
    steps = []
    offered = trajectory.tools
    for step in trajectory.steps:
        steps.append(_step_to_json(step, offered))
        if step.observation is not None:
            offered = step.observation.tools
    return {
        "v": VERSION,
        "task_id": trajectory.task_id,
        "sample": trajectory.sample,
        "group": trajectory.group,
        "policy": trajectory.policy,
        "kind": trajectory.kind,
        "status": trajectory.status,
        "limit": trajectory.limit,
        "forced_answer": trajectory.forced_answer,
        "error": trajectory.error,
        "wall_s": trajectory.wall_s,
        "outcome": None if trajectory.outcome is None else _outcome_to_json(trajectory.outcome),
        "info": dict(trajectory.info),
        "tools": [_spec_to_json(spec) for spec in trajectory.tools],
        "start": [_message_to_json(message) for message in trajectory.start],
        "steps": steps,
    }


def trajectory_from_json(value: Mapping[str, Any], *, where: str = "record") -> Trajectory:
    """Read what :func:`trajectory_to_json` wrote.

    Args:
        value: The record.
        where: File and line, for the error.

    Raises:
        UserError: The record is of another version, or something in it is missing or of the wrong kind.
    """
    version = value.get("v") if isinstance(value, Mapping) else None
    if version != VERSION:
        raise UserError(
            f"{where}: a trajectory record of version {version!r}; this toolorchestra reads version {VERSION}. "
            "Read it with the toolorchestra that wrote it, or remove the line"
        )
    try:
        return _trajectory(value)
    except KeyError as error:
        raise UserError(f"{where}: the trajectory record has no {error.args[0]!r}; remove the line") from None
    except (AttributeError, IndexError, InvalidOperation, TypeError, ValueError) as error:
        raise UserError(f"{where}: not a trajectory record ({error}); remove the line") from None


def _trajectory(value: Mapping[str, Any]) -> Trajectory:
    tools = tuple(_spec(spec) for spec in value["tools"])
    steps: list[Step] = []
    offered = tools
    for item in value["steps"]:
        step = _step(item, offered)
        steps.append(step)
        if step.observation is not None:
            offered = step.observation.tools
    return Trajectory(
        task_id=value["task_id"],
        sample=value["sample"],
        group=value["group"],
        policy=value["policy"],
        start=tuple(_message(message) for message in value["start"]),
        tools=tools,
        steps=tuple(steps),
        outcome=None if value["outcome"] is None else _outcome(value["outcome"]),
        status=value["status"],
        limit=value["limit"],
        forced_answer=value["forced_answer"],
        error=value["error"],
        kind=value["kind"],
        wall_s=value["wall_s"],
        info=value["info"],
    )


def _step_to_json(step: Step, offered: tuple[ToolSpec, ...]) -> dict[str, Any]:
    item: dict[str, Any] = {"action": _action_to_json(step.action), "latency_s": step.action_latency_s}
    if step.observation is not None:
        item["observation"] = _observation_to_json(step.observation, step.action, offered)
    return item


def _step(item: Mapping[str, Any], offered: tuple[ToolSpec, ...]) -> Step:
    action = _action(item["action"])
    seen = item.get("observation")
    return Step(action, item["latency_s"], None if seen is None else _observation(seen, action, offered))


def _action_to_json(action: Action) -> dict[str, Any]:
    item: dict[str, Any] = {"message": _message_to_json(action.message), "finish_reason": action.finish_reason}
    if action.charges:
        item["charges"] = _charges_to_json(action.charges)
    if action.latency_s is not None:
        item["latency_s"] = action.latency_s
    if action.tokens is not None:
        item["tokens"] = _turn_to_json(action.tokens)
    return item


def _action(item: Mapping[str, Any]) -> Action:
    tokens = item.get("tokens")
    return Action(
        message=_message(item["message"]),
        charges=_charges(item),
        latency_s=item.get("latency_s"),
        tokens=None if tokens is None else _turn(tokens),
        finish_reason=item["finish_reason"],
    )


def _observation_to_json(seen: Observation, action: Action, offered: tuple[ToolSpec, ...]) -> dict[str, Any]:
    asked = action.message.tool_calls
    item: dict[str, Any] = {
        "calls": [_record_to_json(record, asked) for record in seen.calls],
        "messages": [_shown_to_json(message, seen.calls) for message in seen.messages],
        "latency_s": seen.latency_s,
    }
    if seen.charges:
        item["charges"] = _charges_to_json(seen.charges)
    if seen.done:
        item["done"] = True
    if seen.tools is not offered and seen.tools != offered:
        item["tools"] = [_spec_to_json(spec) for spec in seen.tools]
    return item


def _observation(item: Mapping[str, Any], action: Action, offered: tuple[ToolSpec, ...]) -> Observation:
    calls = tuple(_record(record, action.message.tool_calls) for record in item["calls"])
    tools = item.get("tools")
    return Observation(
        messages=tuple(_shown(part, calls) for part in item["messages"]),
        tools=offered if tools is None else tuple(_spec(spec) for spec in tools),
        calls=calls,
        latency_s=item["latency_s"],
        charges=_charges(item),
        done=item.get("done", False),
    )


def _shown_to_json(message: Message, calls: Sequence[CallRecord]) -> dict[str, Any]:
    for position, record in enumerate(calls):
        content = record.result.content
        if message.content.endswith(content):
            before = message.content[: len(message.content) - len(content)]
            if message == _repeated(record, before):
                return {"result": position, "before": before} if before else {"result": position}
    return _message_to_json(message)


def _shown(item: Mapping[str, Any], calls: Sequence[CallRecord]) -> Message:
    position = item.get("result")
    return _message(item) if position is None else _repeated(calls[position], item.get("before", ""))


def _repeated(record: CallRecord, before: str) -> Message:
    """The tool message that shows a call's result, as environments write it."""
    call = record.call
    return Message("tool", before + record.result.content, tool_call_id=call.id, name=call.name or None)


def _record_to_json(record: CallRecord, asked: Sequence[ToolCall]) -> dict[str, Any]:
    call = asked.index(record.call) if record.call in asked else _call_to_json(record.call)
    result = record.result
    item: dict[str, Any] = {"call": call, "content": result.content, "latency_s": record.latency_s}
    if result.charges:
        item["charges"] = _charges_to_json(result.charges)
    if result.latency_s is not None:
        item["recorded_s"] = result.latency_s
    if result.error is not None:
        item["error"] = result.error
    if result.data:
        item["data"] = dict(result.data)
    return item


def _record(item: Mapping[str, Any], asked: Sequence[ToolCall]) -> CallRecord:
    call = item["call"]
    result = ToolResult(
        content=item["content"],
        charges=_charges(item),
        latency_s=item.get("recorded_s"),
        error=item.get("error"),
        data=item.get("data", {}),
    )
    return CallRecord(asked[call] if isinstance(call, int) else _call(call), result, item["latency_s"])


def _message_to_json(message: Message) -> dict[str, Any]:
    item: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning:
        item["reasoning"] = message.reasoning
    if message.tool_calls:
        item["tool_calls"] = [_call_to_json(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        item["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        item["name"] = message.name
    return item


def _message(item: Mapping[str, Any]) -> Message:
    return Message(
        role=item["role"],
        content=item["content"],
        reasoning=item.get("reasoning", ""),
        tool_calls=tuple(_call(call) for call in item.get("tool_calls", ())),
        tool_call_id=item.get("tool_call_id"),
        name=item.get("name"),
    )


def _call_to_json(call: ToolCall) -> dict[str, Any]:
    item: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
    if call.error is not None:
        item["error"] = call.error
    if call.raw:
        item["raw"] = call.raw
    return item


def _call(item: Mapping[str, Any]) -> ToolCall:
    return ToolCall(item["id"], item["name"], item["arguments"], item.get("error"), item.get("raw", ""))


def _spec_to_json(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}


def _spec(item: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(item["name"], item["description"], item["parameters"])


def _outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "solved": outcome.solved,
        "answer": outcome.answer,
        "judge": outcome.judge,
        "reason": outcome.reason,
        "charges": _charges_to_json(outcome.charges),
    }


def _outcome(item: Mapping[str, Any]) -> Outcome:
    return Outcome(item["solved"], item["answer"], item["judge"], item["reason"], _charges(item))


def _charges_to_json(charges: Sequence[Charge]) -> list[dict[str, Any]]:
    return [_charge_to_json(charge) for charge in charges]


def _charge_to_json(charge: Charge) -> dict[str, Any]:
    item: dict[str, Any] = {
        "source": charge.source,
        "usd": None if charge.usd is None else str(charge.usd),
        "latency_s": charge.latency_s,
    }
    if charge.usage is not None:
        counts = ((name, getattr(charge.usage, name)) for name in _USAGE_FIELDS)
        item["usage"] = {name: count for name, count in counts if count}
    if charge.price:
        item["price"] = charge.price
    if charge.note:
        item["note"] = charge.note
    return item


def _charges(item: Mapping[str, Any]) -> tuple[Charge, ...]:
    return tuple(
        Charge(
            source=charge["source"],
            usd=None if charge["usd"] is None else Decimal(charge["usd"]),
            latency_s=charge["latency_s"],
            usage=Usage(**charge["usage"]) if "usage" in charge else None,
            price=charge.get("price", ""),
            note=charge.get("note", ""),
        )
        for charge in item.get("charges", ())
    )


def _turn_to_json(turn: SampledTurn) -> dict[str, Any]:
    _check_lengths(turn)
    places: dict[AllowedTokens, int] = {}
    at = []
    for position, allowed in enumerate(turn.allowed):
        if allowed is not None:
            at.append([position, places.setdefault(allowed, len(places))])
    return {
        "context_ids": list(turn.context_ids),
        "ids": list(turn.ids),
        "logprobs": list(turn.logprobs),
        "sampled": "".join("1" if sampled else "0" for sampled in turn.sampled),
        "sets": [{"only": allowed.only, "ids": list(allowed.ids)} for allowed in places],
        "allowed": at,
        "continues": turn.continues,
        "policy_version": turn.policy_version,
        "temperature": turn.temperature,
    }


def _turn(item: Mapping[str, Any]) -> SampledTurn:
    sets = [AllowedTokens(entry["only"], tuple(entry["ids"])) for entry in item["sets"]]
    allowed: list[AllowedTokens | None] = [None] * len(item["ids"])
    for position, number in item["allowed"]:
        allowed[position] = sets[number]
    turn = SampledTurn(
        context_ids=tuple(item["context_ids"]),
        ids=tuple(item["ids"]),
        logprobs=tuple(item["logprobs"]),
        sampled=tuple(mark == "1" for mark in item["sampled"]),
        allowed=tuple(allowed),
        continues=item["continues"],
        policy_version=item["policy_version"],
        temperature=item["temperature"],
    )
    _check_lengths(turn)
    return turn


def _check_lengths(turn: SampledTurn) -> None:
    lengths = {len(turn.ids), len(turn.logprobs), len(turn.sampled), len(turn.allowed)}
    if len(lengths) != 1:
        raise ValueError(f"the ids, logprobs, sampled and allowed of a turn have different lengths: {sorted(lengths)}")
