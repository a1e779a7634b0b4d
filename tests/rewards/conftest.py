"""Trajectories with given counts, dollars, seconds and outcome."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest

from toolorchestra.messages import Message, ToolCall
from toolorchestra.trajectory import Action, CallRecord, Charge, Observation, Outcome, Step, ToolResult, Trajectory

MakeTrajectory = Callable[..., Trajectory]


@pytest.fixture(scope="session")
def make() -> MakeTrajectory:
    """Builds a trajectory of one turn of calls and, unless told otherwise, an answer."""

    def build(
        calls: Mapping[str, int] | None = None,
        *,
        usd: str | None = "0",
        seconds: float = 0.0,
        solved: bool | None = True,
        answer: str | None = "42",
        malformed: int = 0,
        sample: int = 0,
        **changes: Any,
    ) -> Trajectory:
        names = [name for name, count in (calls or {}).items() for _ in range(count)]
        good = [ToolCall(f"c{index}", name) for index, name in enumerate(names)]
        bad = [ToolCall(f"m{index}", "search", error="the arguments are not valid JSON") for index in range(malformed)]
        message = Message("assistant", tool_calls=(*good, *bad))
        records = tuple(CallRecord(call, ToolResult("result"), 0.0) for call in (*good, *bad))
        charge = Charge("orchestrator", None if usd is None else Decimal(usd))
        step = Step(Action(message, charges=(charge,)), 0.0, Observation(calls=records, latency_s=seconds))
        values: dict[str, Any] = {
            "task_id": "t1",
            "sample": sample,
            "group": "g1",
            "policy": "test",
            "steps": (step,),
            "outcome": Outcome(solved, answer),
        }
        return Trajectory(**values | changes)

    return build
