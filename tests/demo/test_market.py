from decimal import Decimal

import pytest

from toolorchestra.demo import Market, Setting, bare_answer, build_tasks, price_per_call, roles, unsure
from toolorchestra.environments import SUBMIT
from toolorchestra.messages import Message, ToolCall
from toolorchestra.trajectory import Action


@pytest.fixture
def market():
    market = Market()
    yield market
    market.close()


def call(name, **arguments):
    return Action(Message("assistant", tool_calls=(ToolCall("c", name, arguments),)), latency_s=0.0)


def first(kind, **wanted):
    tasks = build_tasks("train", 300, 0)
    return next(
        task for task in tasks if task.kind == kind and set(wanted.get("having", ())) <= set(roles(task).values())
    )


def named(task, role):
    return next(name for name, played in roles(task).items() if played == role)


async def test_the_market_shows_each_task_its_own_tools(market):
    task = first("easy")
    opening = await market.environment(task, 0).reset()
    assert tuple(spec.name for spec in opening.tools) == task.tools
    assert [spec.description for spec in opening.tools] == [o.description for o in Setting.read(task).offers]
    models = {named(task, role) for role in ("small", "thinker", "dear") if role in roles(task).values()}
    for spec in opening.tools:
        assert (spec.parameters["properties"] == {}) is (spec.name in models)


async def test_arithmetic_is_really_computed(market):
    task = first("arithmetic", having=["interpreter"])
    world = market.environment(task, 0)
    await world.reset()
    name = named(task, "interpreter")
    wrong = await world.step(call(name, expression="6 * 7"))
    assert wrong.messages[0].content == "[1] 42"
    assert wrong.latency_s == 0.1
    assert [charge.usd for charge in wrong.calls[0].result.charges] == [Decimal("0.00001")]
    right = await world.step(call(name, expression=task.setting["expression"]))
    assert right.messages[0].content == f"[2] {task.answer}"
    await world.step(call(SUBMIT, result="2"))
    assert (await world.score(None)).solved is True


@pytest.mark.parametrize("expression", ["1 / 0", "((((", "9 ** 9 ** 9 ** 9"])
async def test_what_cannot_be_computed_is_a_short_error_that_cannot_be_submitted(market, expression):
    task = first("arithmetic", having=["interpreter"])
    world = market.environment(task, 0)
    await world.reset()
    seen = await world.step(call(named(task, "interpreter"), expression=expression))
    assert seen.messages[0].content.startswith("[1] Error: ")
    assert "\n" not in seen.messages[0].content
    assert SUBMIT not in [spec.name for spec in seen.tools]


async def test_a_look_up_takes_the_right_collection_and_then_a_reader(market):
    solved = 0
    tasks = [
        task
        for task in build_tasks("train", 300, 0)
        if task.kind == "lookup" and {"search", "dear"} <= set(roles(task).values())
    ][:20]
    for task in tasks:
        world = market.environment(task, 0)
        await world.reset()
        passage = await world.step(call(named(task, "search"), collection=task.setting["collection"]))
        content = passage.messages[0].content
        assert task.setting["evidence"] in content
        assert len(content.split()) <= 43
        await world.step(call(named(task, "dear")))
        await world.step(call(SUBMIT, result="2"))
        solved += (await world.score(None)).solved
    assert solved >= 18


async def test_a_passage_alone_is_no_answer(market):
    task = first("lookup")
    world = market.environment(task, 0)
    await world.reset()
    await world.step(call(named(task, "search"), collection=task.setting["collection"]))
    await world.step(call(SUBMIT, result="1"))
    assert (await world.score(None)).solved is False


async def test_a_call_costs_about_what_its_description_says(market):
    for task in build_tasks("test", 20, 0):
        world = market.environment(task, 0)
        await world.reset()
        for name, role in roles(task).items():
            if role in ("small", "thinker", "dear"):
                (record,) = (await world.step(call(name))).calls
                (charge,) = record.result.charges
                assert charge.source == name
                assert abs(charge.usd / price_per_call(task)[name] - 1) < Decimal("0.25")


def test_how_sure_a_model_is_can_be_read_with_or_without_a_number():
    assert not unsure("Paris.")
    assert not unsure("[1] Paris.")
    assert unsure("[12] Paris, but I am not sure.")
    assert unsure("[1] I am not sure. Maybe Paris.")
    assert unsure("I do not know.")
    assert [bare_answer(text) for text in ("Paris.", "Paris, but I am not sure.", "I am not sure. Maybe Paris.")] == [
        "Paris"
    ] * 3
