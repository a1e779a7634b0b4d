"""What a trajectory adds up to: all money, wall-clock seconds, calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.messages import Message, ToolCall
from toolorchestra.pricing import Price, Usage
from toolorchestra.trajectory import (
    ORCHESTRATOR,
    Action,
    CallRecord,
    Charge,
    Observation,
    Outcome,
    Step,
    ToolResult,
    Trajectory,
    total_usd,
)

D = Decimal

usd = st.decimals(min_value=0, max_value=1000, places=9)
charges = st.lists(st.builds(Charge, source=st.sampled_from(["a", "b"]), usd=usd), max_size=4).map(tuple)


def record(name: str, *spent: Charge, latency_s: float = 0.0, error: str | None = None) -> CallRecord:
    call = ToolCall("1", name, error=error)
    return CallRecord(call, ToolResult("", spent), latency_s)


def step(
    *calls: CallRecord,
    spent: Sequence[Charge] = (),
    acting_s: float = 0.0,
    observing_s: float = 0.0,
    observed: Sequence[Charge] = (),
) -> Step:
    message = Message("assistant", tool_calls=tuple(call.call for call in calls))
    observation = Observation(calls=calls, latency_s=observing_s, charges=tuple(observed))
    return Step(Action(message, tuple(spent)), acting_s, observation)


def trajectory(*steps: Step, outcome: Outcome | None = None) -> Trajectory:
    return Trajectory("t", 0, "t", "p", (Message("user", "q"),), (), steps, outcome)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    names = draw(st.lists(st.sampled_from(["search", "code", "expert"]), max_size=3))
    calls = [record(name, *draw(charges)) for name in names]
    return step(*calls, spent=draw(charges), observed=draw(charges))


class TestCost:
    def test_every_attempt_of_everyone_is_billed(self) -> None:  # cost-06
        orch = Price(D("0.05"), D("0.2"))
        expert = Price(D("1.25"), D(10))
        search = Price(per_call_usd=D("0.008"))

        def bill(source: str, price: Price, prompt: int, output: int, note: str = "") -> Charge:
            usage = Usage(prompt, output)
            return Charge(source, price.cost(usage), usage=usage, note=note)

        failed = bill("expert", expert, 1800, 700, "200 OK but unparsable, retried")
        used = bill("expert", expert, 1852, 640, "retry, used")
        searches = [record("search", Charge("search", search.cost())) for _ in range(2)]
        episode = trajectory(
            step(*searches, spent=[bill(ORCHESTRATOR, orch, 1200, 150)]),
            step(record("expert", failed, used), spent=[bill(ORCHESTRATOR, orch, 2600, 90)]),
            step(spent=[bill(ORCHESTRATOR, orch, 4100, 60)]),
        )
        assert episode.cost_usd == D("0.034420")
        parts: Counter[str] = Counter()
        for charge in episode.charges:
            assert charge.usd is not None
            parts[charge.source] += charge.usd  # type: ignore[assignment]
        assert parts == {ORCHESTRATOR: D("0.000455"), "expert": D("0.017965"), "search": D("0.016")}

    def test_money_of_failed_calls_and_of_the_environment_is_spent(self) -> None:
        refused = record("code", Charge("code", D("0.01")), error="malformed")
        failed = CallRecord(ToolCall("2", "code"), ToolResult("", (Charge("code", D("0.02")),), error="boom"), 0.0)
        episode = trajectory(step(refused, failed, observed=[Charge("user", D("0.04"))]))
        assert episode.cost_usd == D("0.07")

    def test_an_episode_that_ends_before_an_observation_is_billed(self) -> None:
        last = Step(Action(Message("assistant"), (Charge(ORCHESTRATOR, D("0.5")),)), 0.0, None)
        assert trajectory(last).cost_usd == D("0.5")

    def test_one_unknown_price_makes_the_sum_unknown(self) -> None:
        episode = trajectory(step(record("expert", Charge("expert", None))), step(spent=[Charge(ORCHESTRATOR, D(1))]))
        assert episode.cost_usd is None

    def test_nothing_spent_is_exactly_zero(self) -> None:
        assert trajectory().cost_usd == 0
        assert total_usd([]) == 0

    def test_judging_is_not_part_of_the_cost(self) -> None:
        episode = trajectory(outcome=Outcome(True, charges=(Charge("judge", D(3)),)))
        assert episode.cost_usd == 0

    @given(st.lists(steps(), max_size=4))
    def test_the_whole_is_the_exact_sum_of_its_steps(self, parts: list[Step]) -> None:
        alone = [trajectory(part).cost_usd for part in parts]
        assert trajectory(*parts).cost_usd == sum((cost for cost in alone if cost is not None), D(0))

    @given(st.lists(steps(), min_size=1, max_size=4), st.randoms(use_true_random=False))
    def test_order_does_not_matter(self, parts: list[Step], random: object) -> None:
        shuffled = list(parts)
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        assert trajectory(*parts).cost_usd == trajectory(*shuffled).cost_usd
        assert trajectory(*parts).calls == trajectory(*shuffled).calls


class TestLatency:
    def test_deciding_counts_and_parallel_calls_count_once(self) -> None:
        together = [record("a", latency_s=3.0), record("b", latency_s=2.0)]
        episode = trajectory(step(*together, acting_s=0.5, observing_s=3.0), step(acting_s=0.25))
        assert episode.latency_s == pytest.approx(3.75)

    def test_a_step_without_observation_counts_its_deciding(self) -> None:
        assert trajectory(Step(Action(Message("assistant")), 1.5, None)).latency_s == 1.5


class TestCalls:
    def test_malformed_calls_are_told_apart(self) -> None:
        episode = trajectory(
            step(record("a"), record("a"), record("b", error="not JSON")),
            step(record("b"), record("", error="no name")),
        )
        assert episode.calls == Counter({"a": 2, "b": 1})
        assert episode.malformed_calls == 2

    def test_a_failed_call_is_a_call(self) -> None:
        failed = CallRecord(ToolCall("2", "code"), ToolResult("", error="boom"), 0.0)
        assert trajectory(step(failed)).calls == Counter({"code": 1})

    @given(st.lists(steps(), max_size=4))
    def test_counts_are_those_of_the_steps(self, parts: list[Step]) -> None:
        expected: Counter[str] = Counter()
        for part in parts:
            expected += trajectory(part).calls
        assert trajectory(*parts).calls == expected


class TestOutcome:
    def test_verdict_and_answer_are_the_outcomes(self) -> None:
        assert trajectory(outcome=Outcome(True, "42")).solved is True
        assert trajectory(outcome=Outcome(None, "42")).solved is None
        assert trajectory(outcome=Outcome(False, "42")).answer == "42"
        assert (trajectory().solved, trajectory().answer) == (None, None)

    def test_messages_are_the_whole_conversation_in_order(self) -> None:
        first = Step(Action(Message("assistant", "a")), 0.0, Observation(messages=(Message("tool", "b"),)))
        last = Step(Action(Message("assistant", "c")), 0.0, None)
        assert [message.content for message in trajectory(first, last).messages] == ["q", "a", "b", "c"]
