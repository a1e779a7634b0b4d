import json
from collections import Counter
from itertools import pairwise

import pytest

from toolorchestra.demo import KINDS, ROLES, SPLITS, Setting, build_tasks, price_per_call, roles
from toolorchestra.demo.bank import questions
from toolorchestra.demo.build import BLOCK
from toolorchestra.demo.wishes import WISHES
from toolorchestra.errors import UserError
from toolorchestra.tasks import Task, read_tasks, write_tasks


def offers(task):
    return Setting.read(task).offers


@pytest.mark.parametrize("split", SPLITS)
def test_tasks_repeat_exactly_and_other_seeds_give_others(split):
    assert build_tasks(split, 40, 3) == build_tasks(split, 40, 3)
    assert build_tasks(split, 40, 3)[:10] == build_tasks(split, 10, 3)
    assert build_tasks(split, 40, 3) != build_tasks(split, 40, 4)


def test_a_task_file_is_self_contained(tmp_path):
    tasks = build_tasks("train", 30, 0)
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    assert read_tasks(tmp_path / "tasks.jsonl") == tasks
    assert Setting.read(tasks[0]).to_json() == json.loads(json.dumps(dict(tasks[0].setting)))


@pytest.mark.parametrize("split", SPLITS)
def test_the_kinds_take_turns_and_every_task_can_be_solved(split):
    tasks = build_tasks(split, 500, 1)
    assert Counter(task.kind for task in tasks) == dict.fromkeys(KINDS, 100)
    for task in tasks:
        on_offer = set(roles(task).values())
        assert 4 <= len(offers(task)) <= 6
        assert task.tools == tuple(roles(task))
        assert len(set(task.tools)) == len(task.tools)
        assert on_offer & {"thinker", "dear"}
        assert task.kind != "lookup" or ("search" in on_offer and on_offer & {"small", "thinker", "dear"})


def test_markets_vary_in_order_roles_names_and_prices():
    tasks = build_tasks("train", 500, 1)
    assert len({tuple(roles(task).values()) for task in tasks}) > 100
    for role in ROLES:
        missing = sum(role not in roles(task).values() for task in tasks)
        assert 0 < missing < 150
        seen = {offer.name for task in tasks for offer in offers(task) if offer.role == role}
        assert seen == set(ROLES[role].wording.names)
    twice = [task for task in tasks if Counter(roles(task).values())["dear"] == 2]
    assert twice
    for task in twice:
        assert len({offer.usd_per_call for offer in offers(task) if offer.role == "dear"}) == 2


def test_the_shown_price_is_the_price():
    for task in build_tasks("train", 50, 1):
        for offer in offers(task):
            usd = price_per_call(task)[offer.name]
            assert f"${(usd * 1000).normalize():f}/1k, {offer.latency_s:g}s." in offer.description


def test_held_out_splits_share_nothing_with_training_where_they_must_not():
    train, test, tools, prices = (build_tasks(split, 400, 0) for split in SPLITS)
    asked = {task.question for task in train}
    for held_out in (test, tools, prices):
        assert not asked & {task.question for task in held_out}

    def used(tasks, field):
        return {(offer.role, getattr(offer, field)) for task in tasks for offer in offers(task)}

    assert used(test, "name") == used(train, "name") == used(prices, "name")
    assert used(test, "multiplier") == used(train, "multiplier") == used(tools, "multiplier")
    assert not used(tools, "name") & used(train, "name")
    assert not used(tools, "ability") & used(train, "ability")
    varied = {(role, value) for role, value in used(prices, "multiplier") if role != "interpreter"}
    assert not varied & used(train, "multiplier")
    said = {task.preference.text for task in train} - {""}
    assert not said & {task.preference.text for task in tools}


def test_a_bank_is_asked_whole_before_anything_repeats():
    tasks = build_tasks("test", 5 * len(questions("hard", "B")), 0)
    hard = [task.question for task in tasks if task.kind == "hard"]
    assert len(set(hard)) == len(hard)


def pairs_of(tasks):
    """The hard questions that come twice in a row."""
    return [
        (first, second)
        for first, second in pairwise(tasks)
        if first.kind == "hard" and first.question == second.question
    ]


def test_a_block_has_one_task_of_every_kind_and_a_second_hard_one():
    tasks = build_tasks("train", 40 * BLOCK, 0, pairs=True)
    for start in range(0, len(tasks), BLOCK):
        block = tasks[start : start + BLOCK]
        assert Counter(task.kind for task in block) == {**dict.fromkeys(KINDS, 1), "hard": 2}
        assert len(pairs_of(block)) == 1


def test_pairs_share_question_and_tools_and_differ_in_wish_or_prices():
    changes = Counter()
    for first, second in pairs_of(build_tasks("train", 200 * BLOCK, 0, pairs=True)):
        before, after = Setting.read(first), Setting.read(second)
        assert (first.question, first.tools, before.seed) == (second.question, second.tools, after.seed)
        wish, prices = before.wish != after.wish, price_per_call(first) != price_per_call(second)
        assert wish or prices
        changes[wish, prices] += 1
    assert changes[True, False] > 30
    assert changes[False, True] > 5
    assert changes[True, True] > 5


def test_pairs_ask_once_for_the_dear_models_strengths_and_once_for_the_thinkers():
    contrasted = 0
    for first, second in pairs_of(build_tasks("train", 200 * BLOCK, 0, pairs=True)):
        wishes = {Setting.read(first).wish, Setting.read(second).wish}
        if "avoid-dear" in wishes and price_per_call(first) == price_per_call(second):
            assert wishes & {"balanced", "fast"}
            contrasted += 1
    assert contrasted > 20


def test_wishes_have_paraphrases_and_to_avoid_the_dear_one_names_it_and_has_a_cheaper_thinker():
    tasks = build_tasks("train", 500, 0)
    by_wish = Counter(Setting.read(task).wish for task in tasks)
    assert set(by_wish) == set(WISHES)
    assert min(by_wish.values()) > 70
    for wish in WISHES.values():
        assert len(set(wish.words)) >= 4
        assert len(set(wish.held_out_words) - set(wish.words) - {""}) >= 2
    for task in tasks:
        if Setting.read(task).wish != "avoid-dear":
            assert not task.preference.tools
            continue
        prices = price_per_call(task)
        dear = [name for name, role in roles(task).items() if role == "dear"]
        thinkers = [name for name, role in roles(task).items() if role == "thinker"]
        assert all(name in task.preference.text for name in dear)
        assert set(task.preference.tools) == set(thinkers)
        assert min(prices[name] for name in thinkers) < min(prices[name] for name in dear)


def test_prompts_are_short():
    for split in SPLITS:
        for task in build_tasks(split, 200, 0):
            tools = "\n".join(f"{offer.name}(collection): {offer.description}" for offer in offers(task))
            assert len(f"{tools}\n{task.question}\n{task.preference.text}".split()) < 90


def test_what_is_wrong_is_named():
    with pytest.raises(UserError, match="no split 'valid'; it has train"):
        build_tasks("valid", 1)
    with pytest.raises(UserError, match="number of tasks is 0"):
        build_tasks("train", 0)
    with pytest.raises(UserError, match="task 'x': its setting has no 'seed'"):
        Setting.read(Task("x", "Q?", "A"))
    task = build_tasks("train", 1)[0]
    setting = dict(task.setting)
    for offer in (
        {"name": "a"},
        {**setting["offers"][0], "role": "oracle"},
        {**setting["offers"][0], "multiplier": "x"},
    ):
        broken = Task("x", "Q?", "A", setting={**setting, "offers": [offer]})
        with pytest.raises(UserError, match=r"task 'x': .* is no tool of the demo market"):
            Setting.read(broken)
