"""The tasks of the demo: questions, each set in a market and a wish of its own, reproducible from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Literal

from toolorchestra.demo.bank import KINDS, Part, Question, arithmetic, questions
from toolorchestra.demo.offers import Offer, Style, by_role, draw_offers, reprice
from toolorchestra.demo.setting import Setting
from toolorchestra.demo.wishes import AVOID_DEAR, WISHES, Wish
from toolorchestra.errors import UserError
from toolorchestra.tasks import Task

Split = Literal["train", "test", "heldout_tools", "heldout_prices"]
SPLITS: tuple[Split, ...] = ("train", "test", "heldout_tools", "heldout_prices")

BLOCK = len(KINDS) + 1
"""Tasks of one block of :func:`build_tasks` with ``pairs``."""

_STYLES = {"heldout_tools": Style(held_out_names=True), "heldout_prices": Style(held_out_prices=True)}


@dataclass(frozen=True, slots=True)
class _Case:
    """A question in a market, before a wish is made: what the two tasks of a pair have in common."""

    name: str
    split: Split
    question: Question
    offers: tuple[Offer, ...]
    style: Style
    rng: random.Random


def build_tasks(split: Split, n: int, seed: int = 0, *, pairs: bool = False) -> tuple[Task, ...]:
    """Tasks of one split.

    Args:
        split: ``train`` (part A of the questions), or one of the held-out splits (part B): ``test``, ``heldout_tools``
            (other names, descriptions and wordings), ``heldout_prices`` (prices outside of the training range).
        n: How many.
        seed: Other seeds give other tasks.
        pairs: Whether hard questions come twice, with the same tools and another wish, other prices or both, so that
            what is learned from them is the difference. The tasks then come in blocks of ``BLOCK``: one of every kind,
            and a second hard one.

    Raises:
        UserError: The split is unknown, or ``n`` is below 1.
    """
    if split not in SPLITS:
        raise UserError(f"the demo has no split {split!r}; it has {', '.join(SPLITS)}")
    if n < 1:
        raise UserError(f"the number of tasks is {n}; use 1 or more")
    cases = (_case(split, seed, index) for index in count())
    tasks = (task for case in cases for task in _tasks_of(case, 2 if pairs and case.question.kind == "hard" else 1))
    return tuple(islice(tasks, n))


def _case(split: Split, seed: int, index: int) -> _Case:
    rng = random.Random(f"{split}/{seed}/{index}")
    kind, number = _turn(index, split, seed)
    style = _STYLES.get(split, Style())
    question = _question(kind, number, split, seed, rng)
    return _Case(f"{split}-{seed}-{index}", split, question, draw_offers(rng, kind, style), style, rng)


def _turn(index: int, split: str, seed: int) -> tuple[str, int]:
    """The kind of a case, and how many cases of this kind came before it.

    Every five cases in a row are of the five kinds, in random order.
    """
    lap, place = divmod(index, len(KINDS))
    return random.Random(f"{split}/{seed}/kinds/{lap}").sample(KINDS, len(KINDS))[place], lap


def _question(kind: str, number: int, split: str, seed: int, rng: random.Random) -> Question:
    part: Part = "A" if split == "train" else "B"
    if kind == "arithmetic":
        return arithmetic(rng, part)
    bank = questions(kind, part)
    # Walk through the bank in random order, so that nothing repeats before all was asked.
    lap, place = divmod(number, len(bank))
    return random.Random(f"{split}/{seed}/{kind}/{lap}").sample(bank, len(bank))[place]


def _tasks_of(case: _Case, size: int) -> list[Task]:
    """One task, or two that differ in the wish, the prices or both. Their models know and err alike."""
    rng, offers, seed = case.rng, case.offers, case.rng.randrange(2**31)
    wish = rng.choice(_wishes(offers))
    tasks = [_task(case, f"{case.name}a", offers, wish, seed)]
    if size > 1 and case.question.kind == "hard" and AVOID_DEAR in _wishes(offers):
        # Where both are on offer, one of the pair asks for the dear model's strengths and one for the thinker's.
        for_dear = rng.choice((WISHES["balanced"], WISHES["fast"]))
        for_thinker = rng.choice((WISHES["thrift"], AVOID_DEAR, AVOID_DEAR))
        pair = [for_dear, for_thinker]
        rng.shuffle(pair)
        return [_task(case, f"{case.name}{place}", offers, wish, seed) for place, wish in zip("ab", pair, strict=True)]
    if size > 1:
        change = rng.choice(("wish", "wish", "prices", "both"))
        before = offers
        if change != "wish":
            offers = reprice(rng, offers, case.style)
        wishes = _wishes(offers)
        # New prices may come out as the old ones, or rule the old wish out; then the wish changes all the same.
        if change != "prices" or offers == before or wish not in wishes:
            wish = rng.choice([other for other in wishes if other is not wish])
        tasks.append(_task(case, f"{case.name}b", offers, wish, seed))
    return tasks


def _wishes(offers: Sequence[Offer]) -> list[Wish]:
    """The wishes that make sense: to do without the dear model takes a thinker that costs less."""
    prices = {role: [offer.usd_per_call for offer in offers if offer.role == role] for role in ("thinker", "dear")}
    can_avoid = prices["thinker"] and prices["dear"] and min(prices["dear"]) > min(prices["thinker"])
    return [wish for wish in WISHES.values() if can_avoid or wish is not AVOID_DEAR]


def _task(case: _Case, task_id: str, offers: Sequence[Offer], wish: Wish, seed: int) -> Task:
    question = case.question
    preference = wish.preference(case.rng, by_role(offers), held_out=case.style.held_out_names)
    return Task(
        id=task_id,
        question=question.text,
        answer=question.answer,
        aliases=question.aliases,
        judge="number" if question.kind == "arithmetic" else "exact",
        kind=question.kind,
        split=case.split,
        preference=preference,
        tools=tuple(offer.name for offer in offers),
        setting=Setting.of(question, offers, wish.name, seed).to_json(),
    )


def under_both_wishes(tasks: Sequence[Task], wanted: int) -> tuple[Task, ...]:
    """Tasks asked twice: once with a balanced wish, once with the wish to do without the dear model.

    Only tasks that the dear model is needed for, or a slower and cheaper one, are taken: hard questions with both on
    offer. Everything but the wish is the same in the two.

    Args:
        tasks: To take them from, in order.
        wanted: How many questions to take.

    Raises:
        UserError: There are not so many.
    """
    fitting = [task for task in tasks if task.kind == "hard" and AVOID_DEAR in _wishes(Setting.read(task).offers)]
    # One question stands in many markets; each is taken once before any is taken again.
    fitting = list({task.question: task for task in reversed(fitting)}.values())[::-1] + fitting
    chosen = list(dict.fromkeys(task.id for task in fitting))[:wanted]
    if len(chosen) < wanted:
        raise UserError(f"{wanted} tasks were asked for under two wishes, and {len(chosen)} fit; give more tasks")
    by_id = {task.id: task for task in tasks}
    return tuple(_wished(by_id[task_id], wish) for task_id in chosen for wish in (WISHES["balanced"], AVOID_DEAR))


def _wished(task: Task, wish: Wish) -> Task:
    setting = Setting.read(task)
    preference = wish.preference(random.Random(f"wish/{task.id}"), by_role(setting.offers), held_out=False)
    changed = {**task.setting, "wish": wish.name}
    return replace(task, id=f"{task.id}-{wish.name}", split="wishes", preference=preference, setting=changed)
