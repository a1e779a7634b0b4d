"""Made-up trajectories of made-up systems. Nothing here is a measurement."""

import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest

from toolorchestra.evaluation import (
    Adherence,
    Claim,
    Example,
    ReportData,
    Split,
    call_share,
    pooled_rewards,
    summarise,
)
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.preferences import Preference
from toolorchestra.trajectory import Action, CallRecord, Charge, Observation, Outcome, Step, ToolResult, Trajectory

MakeTrajectory = Callable[..., Trajectory]
TOOLS = ("code_interpreter", "local_search", "ask_small", "ask_large")
PRICES = {"code_interpreter": "0.00002", "local_search": "0.00005", "ask_small": "0.0004", "ask_large": "0.0121"}
BEST = {"arithmetic": TOOLS[0], "look-up": TOOLS[1], "easy": TOOLS[2], "hard": TOOLS[3]}


def make_trajectory(
    calls: Mapping[str, int] | None = None,
    *,
    usd: str | None = "0",
    seconds: float = 0.0,
    solved: bool | None = True,
    answer: str | None = "84",
    malformed: int = 0,
    result: str = "a result",
    **changes: Any,
) -> Trajectory:
    """A trajectory of one turn of calls and one with the answer."""
    names = [name for name, count in (calls or {}).items() for _ in range(count)]
    good = [ToolCall(f"c{index}", name, {"input": "12 * 7"}) for index, name in enumerate(names)]
    bad = [ToolCall(f"m{index}", "?", error="not valid JSON", raw='{"inp') for index in range(malformed)]
    records = tuple(CallRecord(call, ToolResult(result), seconds) for call in good)
    charge = Charge("orchestrator", None if usd is None else Decimal(usd))
    first = Action(Message("assistant", reasoning="Which tool fits?", tool_calls=(*good, *bad)), charges=(charge,))
    last = Action(Message("assistant", content=answer or ""))
    values: dict[str, Any] = {
        "task_id": "t1",
        "sample": 0,
        "group": "g",
        "policy": "test",
        "start": (Message("system", "Use the tools."), Message("user", "What is 12 * 7?")),
        "tools": tuple(ToolSpec(name, "") for name in TOOLS),
        "steps": (Step(first, 0.1, Observation(calls=records, latency_s=seconds)), Step(last, 0.1, None)),
        "outcome": Outcome(solved, answer, judge="exact", reason="the numbers agree" if solved else "84 was expected"),
    }
    return Trajectory(**values | changes)


def _choose(system: str, kind: str, chance: random.Random) -> str:
    if system in TOOLS:
        return system
    skill = {"trained": 0.95, "untrained": 0.28, "random": 0.25, "cascade": 0.7}[system]
    return BEST[kind] if chance.random() < skill else chance.choice(TOOLS)


def made_up_split(count: int, seed: int) -> dict[str, list[Trajectory]]:
    """Trajectories of seven systems on ``count`` tasks of four kinds."""
    chance = random.Random(seed)
    systems: dict[str, list[Trajectory]] = {}
    for system in ("trained", "untrained", "random", "cascade", "ask_large", "ask_small", "local_search"):
        for number in range(count):
            kind = list(BEST)[number % 4]
            tool = _choose(system, kind, chance)
            calls = {tool: 1} | ({"ask_small": 1} if system == "cascade" else {})
            right = chance.random() < (0.97 if tool == BEST[kind] else 0.9 if tool == "ask_large" else 0.12)
            usd = sum(Decimal(PRICES[name]) * count for name, count in calls.items()) * Decimal(chance.choice("1123"))
            trajectory = make_trajectory(
                calls,
                usd=str(usd),
                seconds=chance.uniform(0.3, 4.0) * (3 if tool == "ask_large" else 1),
                solved=right,
                answer="84" if right else "82",
                task_id=f"{kind}-{number}",
                kind=kind,
                policy=system,
                status="missing" if system == "trained" and number == 5 else "done",
            )
            systems.setdefault(system, []).append(trajectory)
    return systems


def made_up_report() -> ReportData:
    """A whole report."""
    splits = []
    for seed, (name, text, count) in enumerate(
        [
            ("held-out tasks", "New questions, with the tools and prices of training.", 96),
            ("held-out tools", "Tools under names and descriptions that training never showed.", 60),
            ("held-out prices", "Prices outside the range of training.", 60),
        ]
    ):
        systems = made_up_split(count, seed)
        wishes = {t.task_id: Preference(compute=0.5, latency=0.1) for t in systems["trained"]}
        rewards = pooled_rewards(systems, wishes) if seed == 0 else None
        splits.append(Split(name, list(summarise(systems, reference="ask_large", rewards=rewards).values()), text))
    shares = [
        Adherence(system, wish, share)
        for index, wish in enumerate(["no wish", "avoid the large model", "only the best will do"])
        for system in ("untrained", "trained")
        if (share := call_share(made_up_split(60, 7 + index)[system][index * 9 :], "ask_large")) is not None
    ]
    chance = random.Random(3)
    learning = [
        {
            "step": step,
            "reward": 0.4 + 0.9 * (1 - 0.95**step) + chance.gauss(0, 0.06),
            "accuracy": 0.3 + 0.62 * (1 - 0.94**step) + chance.gauss(0, 0.04),
            "cost_usd": 0.004 + 0.004 * 0.93**step + chance.gauss(0, 0.0004),
            "entropy": 0.25 + 1.1 * 0.95**step + chance.gauss(0, 0.03),
            "kept_groups": round(15 - 4 * (1 - 0.97**step) + chance.gauss(0, 1)),
        }
        | {f"calls.{tool}": 0.25 + chance.gauss(0, 0.02) + index * step / 800 for index, tool in enumerate(TOOLS)}
        for step in range(1, 81)
    ]
    trained = made_up_split(8, 0)["trained"]
    return ReportData(
        title="A trained orchestrator against its baselines",
        summary="A 135M-parameter model, trained for 80 steps to choose among four tools. (Made up, for tests.)",
        notice="The market is simulated: models, prices and seconds are stand-ins, and no real model was called.",
        focus="trained",
        before="untrained",
        reference="ask_large",
        descriptions={"trained": "after 80 steps of GRPO", "cascade": "cheapest first, then dearer"},
        splits=splits,
        learning=learning,
        adherence=shares,
        adherence_of="calls to the large model",
        claims=[
            Claim("Accuracy within 2 points of the dearest model", "+2.1 [-3.0, +7.1]", "≥ −2", True),
            Claim("Cost at most 40% of the dearest model's", "47% [40%, 55%]", "≤ 40%", False),
            Claim("Resumes after being killed", "not tried", "yes", None),
        ],
        examples=[Example(t, expected="84", note="One of the first tasks.") for t in trained],
        settings={"seed": 0, "versions": {"toolorchestra": "0.1.0"}, "grpo": {"lr": 2e-5, "clip": [0.2, 0.28]}},
        command="make demo",
        created="1 January 2026",
    )


@pytest.fixture(scope="session")
def make() -> MakeTrajectory:
    """Builds a trajectory."""
    return make_trajectory


@pytest.fixture(scope="session")
def report_data() -> ReportData:
    """A whole report of made-up data."""
    return made_up_report()
