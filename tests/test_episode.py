import asyncio
from decimal import Decimal

import pytest

from toolorchestra.environments.calls import carry_out
from toolorchestra.episode import NO_ANSWER, run_episode
from toolorchestra.errors import LimitReached, RetryableError, UserError
from toolorchestra.limits import Limits
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.preferences import Preference
from toolorchestra.pricing import Usage
from toolorchestra.tasks import Task
from toolorchestra.tools.base import CallContext
from toolorchestra.trajectory import Action, Charge, Observation, Outcome, ToolResult

TASK = Task(
    "t1", "2+2?", "4", kind="sum", split="test", preference=Preference("be cheap"), setting={"prices": {"a": 1}}
)


def cents(amount, source="orchestrator", tokens=0):
    return Charge(source, None if amount is None else Decimal(amount) / 100, usage=Usage(input_tokens=tokens))


def calls(*names, usd=1, tokens=0, latency_s=1.0):
    asked = tuple(ToolCall(f"c{index}", name) for index, name in enumerate(names))
    return Action(Message("assistant", tool_calls=asked), (cents(usd, tokens=tokens),), latency_s)


def answer(text="4", latency_s=1.0):
    return Action(Message("assistant", text), (cents(1),), latency_s)


class Policy:
    """Plays moves: actions, errors to raise, or seconds to sleep."""

    def __init__(self, *moves):
        self.moves = list(moves)
        self.seen = []
        self.closed = 0

    async def act(self, history, tools):
        self.seen.append((history, tools))
        move = self.moves.pop(0) if len(self.moves) > 1 else self.moves[0]
        if isinstance(move, Exception):
            raise move
        if isinstance(move, float):
            await asyncio.sleep(move)
            return answer("late", latency_s=None)
        return move

    async def aclose(self):
        self.closed += 1


class Search:
    spec = ToolSpec("search", "finds")

    async def call(self, arguments, context):
        return ToolResult("found", charges=(cents(2, "search", tokens=10),), latency_s=3.0)


class World:
    """A question with one tool."""

    time_left_s = None
    opening = Observation((Message("user", "2+2?"),), (Search.spec,))

    def __init__(self, tool=None):
        self.tool = tool or Search()
        self.carried = 0
        self.told = []

    async def reset(self):
        return self.opening

    async def step(self, action):
        self.told.append(self.time_left_s)
        if not action.message.tool_calls:
            return Observation(done=True)
        self.carried += 1
        carried = await carry_out(action.message.tool_calls, {"search": self.tool}, CallContext())
        return Observation(carried.messages, (Search.spec,), carried.calls, carried.latency_s)

    async def score(self, trajectory):
        last = trajectory.steps[-1].action.message if trajectory.steps else Message("assistant")
        return Outcome(last.content == "4", last.content or None)


async def play(policy, world=None, **limits):
    return await run_episode(
        policy,
        world or World(),
        task=TASK,
        sample=3,
        group="g",
        policy_name="p",
        limits=Limits(**limits),
    )


async def test_a_whole_episode():
    policy = Policy(calls("search", "search"), answer())
    seen = await play(policy)
    assert (seen.task_id, seen.sample, seen.group, seen.policy, seen.kind) == ("t1", 3, "g", "p", "sum")
    assert (seen.status, seen.limit, seen.error, seen.forced_answer) == ("done", None, None, False)
    assert seen.solved is True
    assert seen.answer == "4"
    assert seen.calls == {"search": 2}
    assert seen.cost_usd == Decimal("0.06")  # two turns at 1 cent, two calls at 2
    assert seen.latency_s == 5.0  # two turns of 1 s, and two parallel calls of 3 s, which count once
    assert [message.role for message in seen.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert seen.info["preference"]["text"] == "be cheap"
    assert seen.info["prices"] == {"a": 1}
    assert seen.info["split"] == "test"
    assert seen.wall_s > 0
    # The policy saw the conversation as it then was.
    assert [len(history) for history, _ in policy.seen] == [1, 4]
    assert policy.closed == 1


async def test_measured_seconds_are_used_where_none_are_given():
    seen = await play(Policy(0.05))
    assert seen.latency_s == pytest.approx(0.05, abs=0.04)


async def test_a_malformed_call_is_an_observation_and_the_episode_goes_on():
    bad = Action(Message("assistant", tool_calls=(ToolCall("c", "search", error="not JSON"),)), latency_s=0.0)
    seen = await play(Policy(bad, answer()))
    assert seen.status == "done"
    assert seen.solved
    assert seen.malformed_calls == 1
    assert seen.calls == {}


@pytest.mark.parametrize("content", ["", " \n"])
async def test_saying_nothing_is_no_valid_answer(content):
    world = World()
    seen = await play(Policy(Action(Message("assistant", content, reasoning="hm"), latency_s=0.0)), world)
    assert seen.status == "done"
    assert seen.outcome == Outcome(solved=False, reason=NO_ANSWER)
    assert world.told == []


@pytest.mark.parametrize(
    ("limits", "limit", "turns", "carried"),
    [
        ({"turns": 3}, "turns", 3, 3),
        ({"usd": 0.06}, "usd", 2, 2),
        ({"usd": Decimal("0.04")}, "usd", 2, 1),  # the second decision itself spends the last cent
        ({"tokens": 20}, "tokens", 2, 2),
        ({"seconds": 8.0}, "seconds", 2, 2),
        ({"seconds": 5.0}, "seconds", 2, 1),
    ],
)
async def test_a_limit_ends_the_episode_and_is_named(limits, limit, turns, carried):
    world = World()
    seen = await play(Policy(calls("search")), world, **limits)
    assert (seen.status, seen.limit, seen.forced_answer) == ("limit", limit, False)
    assert len(seen.steps) == turns
    assert world.carried == carried
    assert seen.solved is False


async def test_an_answer_is_an_answer_whatever_its_last_turn_cost():
    seen = await play(Policy(calls("search"), answer()), usd=0.035)
    assert (seen.status, seen.limit, seen.solved) == ("done", None, True)


async def test_the_forced_answer_is_asked_for_without_tools_and_visible():
    policy = Policy(calls("search"), calls("search"), answer())
    seen = await play(policy, turns=2, forced_answer=True)
    assert (seen.status, seen.limit, seen.forced_answer, seen.solved) == ("limit", "turns", True, True)
    history, tools = policy.seen[-1]
    assert tools == ()
    assert "limit on turns is reached" in history[-1].content
    assert seen.messages[-2] == history[-1]


async def test_before_a_forced_answer_every_call_has_a_result():
    policy = Policy(calls("search"), calls("search"), answer())
    seen = await play(policy, usd=Decimal("0.04"), forced_answer=True)
    assert (seen.limit, seen.forced_answer, seen.solved) == ("usd", True, True)
    assert [message.role for message in policy.seen[-1][0]][-3:] == ["assistant", "tool", "user"]
    assert seen.calls == {"search": 1}  # what was refused is no call
    assert seen.cost_usd == Decimal("0.05")


async def test_a_forced_answer_that_calls_a_tool_is_none():
    world = World()
    seen = await play(Policy(calls("search")), world, turns=2, forced_answer=True)
    assert (seen.status, seen.forced_answer, seen.solved) == ("limit", True, False)
    assert world.carried == 2
    assert len(seen.steps) == 3


async def test_no_answer_is_forced_out_of_time():
    seen = await play(Policy(calls("search")), seconds=4.0, forced_answer=True)
    assert (seen.limit, seen.forced_answer) == ("seconds", False)


async def test_a_hanging_policy_is_cut_at_the_limit_and_its_seconds_count():
    policy = Policy(calls("search", latency_s=0.0), 60.0)
    world = World()
    seen = await play(policy, world, seconds=3.1)
    assert (seen.status, seen.limit) == ("limit", "seconds")
    assert seen.latency_s == pytest.approx(3.1, abs=0.1)
    assert policy.closed == 1


async def test_a_policy_on_a_virtual_clock_is_not_cut_by_the_real_one():
    policy = Policy(0.05)
    policy.virtual_clock = True
    seen = await play(policy, seconds=0.01)
    assert seen.status == "done"


async def test_the_environment_is_told_the_time_left():
    world = World()
    await play(Policy(calls("search"), answer()), world, seconds=10.0)
    assert world.told == [9.0, 5.0]


async def test_calls_that_are_stopped_at_the_limit_stay_on_the_record():
    class Slow(Search):
        async def call(self, arguments, context):
            await asyncio.sleep(60 if arguments else 0)
            return await super().call(arguments, context)

    class Timed(World):
        async def step(self, action):
            carried = await carry_out(
                action.message.tool_calls, {"search": Slow()}, CallContext(), time_left_s=self.time_left_s
            )
            return Observation(carried.messages, (Search.spec,), carried.calls, carried.latency_s)

    asked = (ToolCall("a", "search"), ToolCall("b", "search", {"slow": True}))
    seen = await play(Policy(Action(Message("assistant", tool_calls=asked), latency_s=0.0)), Timed(), seconds=0.05)
    assert (seen.status, seen.limit) == ("limit", "seconds")
    assert seen.calls == {"search": 2}
    assert seen.cost_usd == Decimal("0.02")


async def test_a_hanging_environment_is_cut():
    class Hangs:
        reset = World.reset
        score = World.score
        opening = World.opening

        async def step(self, action):
            await asyncio.sleep(60)

    seen = await play(Policy(calls("search", latency_s=0.0)), Hangs(), seconds=0.05)
    assert (seen.status, seen.limit) == ("limit", "seconds")
    assert seen.latency_s == pytest.approx(0.05, abs=0.04)


async def test_a_policys_own_limit_is_a_limit():
    seen = await play(Policy(calls("search"), LimitReached("tokens", allowed=4096, used=5000)))
    assert (seen.status, seen.limit) == ("limit", "tokens")
    assert len(seen.steps) == 1


@pytest.mark.parametrize("error", [RetryableError("server gone"), KeyError("bug"), TimeoutError("inner")])
async def test_what_breaks_under_the_policy_is_missing_and_its_money_is_kept(error):
    error.charges = (cents(7),)
    policy = Policy(calls("search"), error)
    seen = await play(policy, seconds=60.0)
    assert seen.status == "missing"
    assert seen.outcome is None
    assert seen.solved is None
    assert type(error).__name__ in seen.error
    assert seen.cost_usd == Decimal("0.10")
    assert policy.closed == 1


async def test_what_breaks_under_a_tool_is_missing_and_the_other_calls_money_is_kept():
    class Lost(Search):
        async def call(self, arguments, context):
            if arguments:
                raise RetryableError("gone")
            return await super().call(arguments, context)

    asked = (ToolCall("a", "search"), ToolCall("b", "search", {"x": 1}))
    seen = await play(Policy(Action(Message("assistant", tool_calls=asked), (cents(1),), 0.0)), World(Lost()))
    assert seen.status == "missing"
    assert "gone" in seen.error
    assert seen.cost_usd == Decimal("0.03")
    assert seen.calls == {"search": 1}


async def test_a_broken_reset_or_score_is_missing():
    class NoReset(World):
        async def reset(self):
            raise OSError("no database")

    class NoScore(World):
        async def score(self, trajectory):
            error = RetryableError("the judge is overloaded")
            error.charges = (cents(5, "judge"),)
            raise error

    seen = await play(Policy(answer()), NoReset())
    assert (seen.status, seen.steps) == ("missing", ())
    seen = await play(Policy(answer()), NoScore())
    assert seen.status == "missing"
    assert len(seen.steps) == 1  # so that it can be judged again
    assert seen.solved is None
    assert seen.outcome.charges[0].source == "judge"
    assert seen.cost_usd == Decimal("0.01")


async def test_a_secret_in_an_error_is_not_recorded(monkeypatch, caplog):
    monkeypatch.setenv("DEMO_API_KEY", "abcdefgh12345678")
    seen = await play(Policy(ValueError("refused abcdefgh12345678, Bearer xyzxyzxyz " + "x" * 9000)))
    assert seen.error.startswith("ValueError: refused [hidden], Bearer [hidden] x")
    assert len(seen.error) < 400
    assert "abcdefgh12345678" not in caplog.text
    assert "xyzxyzxyz" not in caplog.text


async def test_a_users_error_goes_through_after_closing():
    policy = Policy(UserError("no key"))
    with pytest.raises(UserError, match="no key"):
        await play(policy)
    assert policy.closed == 1


async def test_a_limit_on_dollars_needs_prices():
    with pytest.raises(UserError, match=r"limits.usd is set, but what 'orchestrator' costs is unknown"):
        await play(Policy(calls("search", usd=None)), usd=1)
    seen = await play(Policy(calls("search", usd=None), answer()))
    assert seen.cost_usd is None  # unknown, never 0


async def test_a_failing_close_changes_nothing(caplog):
    class Sticky(Policy):
        async def aclose(self):
            raise OSError("stuck")

    seen = await play(Sticky(answer()))
    assert seen.solved
    assert "closing Sticky failed" in caplog.text


async def test_what_the_reset_cost_is_on_the_trajectory():
    class Talks(World):
        opening = Observation((Message("user", "hi"),), (), (), 2.0, (cents(9, "user"),))

    seen = await play(Policy(answer()), Talks(), usd=1)
    assert seen.cost_usd == Decimal("0.10")
    assert seen.latency_s == 3.0
    seen = await play(Policy(answer()), Talks(), usd=0.05)
    assert (seen.status, seen.limit, seen.steps) == ("limit", "usd", ())


async def test_an_episode_may_be_over_before_it_begins():
    class Over(World):
        opening = Observation(done=True)

    seen = await play(Policy(answer()), Over())
    assert (seen.status, seen.steps, seen.solved) == ("done", (), False)


@pytest.mark.parametrize("limit", ["turns", "tokens", "usd", "seconds"])
def test_a_limit_must_be_above_zero(limit):
    with pytest.raises(UserError, match=rf"limits\.{limit} is 0"):
        Limits(**{limit: 0})
