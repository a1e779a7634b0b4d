from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.messages import Message
from toolorchestra.models.base import ChatModel, Sampling
from toolorchestra.models.simulated import (
    DO_NOT_KNOW,
    AnswerKey,
    Candour,
    KeyEntry,
    SimulatedModel,
    Statement,
    has_evidence,
    read_statement,
    state,
)
from toolorchestra.pricing import Price, Usage

PRICE = Price(Decimal("2"), Decimal("10"), source="simulated")
ENTRIES = [
    KeyEntry(f"What is fact {index}?", f"gold {index}", "trivia", ("lead", "tin"), (f"Fact {index} is gold {index}.",))
    for index in range(400)
]


def model(name="sim", skill=0.6, **changes):
    settings = {
        "skills": {"trivia": skill, "reading": 0.95},
        "price": PRICE,
        "latency_s": 5.0,
        "output_tokens": 300,
        "answer_key": AnswerKey(ENTRIES),
    }
    return SimulatedModel(name=name, **(settings | changes))


async def ask(simulated: ChatModel, entry, *before, seed=None):
    messages = [*before, Message("user", entry.question)]
    completion = await simulated.complete(messages, sampling=Sampling(seed=seed))
    return completion.message.content


async def answers(simulated, *, entries=ENTRIES, seed=None):
    return [read_statement(await ask(simulated, entry, seed=seed)) for entry in entries]


async def test_it_is_right_as_often_as_its_skill_says_and_errs_plausibly():
    given_answers = await answers(model(skill=0.6))
    right = [said.answer == entry.answer for said, entry in zip(given_answers, ENTRIES, strict=True)]
    assert 0.53 < sum(right) / len(right) < 0.67
    assert {said.answer for said, ok in zip(given_answers, right, strict=True) if not ok} == {"lead", "tin"}


@pytest.mark.parametrize(("skill", "expected"), [(0.0, 0), (1.0, 400)])
async def test_the_extremes_of_skill_are_exact(skill, expected):
    said = await answers(model(skill=skill))
    assert sum(one.answer == entry.answer for one, entry in zip(said, ENTRIES, strict=True)) == expected


async def test_the_same_model_always_says_the_same_and_another_one_errs_elsewhere():
    first = await answers(model())
    assert await answers(model()) == first
    # Order does not matter: no hidden random stream.
    assert await answers(model(), entries=ENTRIES[::-1]) == first[::-1]
    assert await answers(model("other")) != first
    assert await answers(model(seed=1)) != first


async def test_samples_differ_only_where_they_are_told_to():
    assert await answers(model(), seed=1) == await answers(model(), seed=2)
    varied = model(per_sample=True)
    assert await answers(varied, seed=1) != await answers(varied, seed=2)
    assert await answers(varied, seed=1) == await answers(varied, seed=1)


async def test_candour_is_how_often_each_kind_of_answer_is_stated_plainly():
    said = await answers(model(skill=0.5, candour=Candour(right=0.9, wrong=0.2)))
    right = [one.sure for one, entry in zip(said, ENTRIES, strict=True) if one.answer == entry.answer]
    wrong = [one.sure for one, entry in zip(said, ENTRIES, strict=True) if one.answer != entry.answer]
    assert 0.83 < sum(right) / len(right) < 0.97
    assert 0.1 < sum(wrong) / len(wrong) < 0.3


async def test_reading_the_passage_replaces_the_skill_of_the_kind():
    ignorant = model(skill=0.0)
    entry = ENTRIES[7]
    assert read_statement(await ask(ignorant, entry)).answer != entry.answer
    passage = Message("tool", "[1] A note.  Fact 7 is\ngold 7. More.")
    reads = [
        read_statement(await ask(model(str(index), skill=0.0), entry, passage)).answer == entry.answer
        for index in range(60)
    ]
    assert sum(reads) > 50
    other = Message("tool", "[1] Fact 8 is gold 8.")
    assert read_statement(await ask(ignorant, entry, other)).answer != entry.answer


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What is 40 + 2? [1] 42", True),
        ("What is 40 + 2? 42.", True),
        ("What is 40 + 2? 142", False),
        ("What is 40 + 2? -42", False),
        ("What is 40 + 2? 42.5", False),
        ("What is 40 + 2? 1,42", False),
        ("What is 40 + 2?", False),
    ],
)
def test_evidence_is_a_whole_number_outside_the_question(text, found):
    assert has_evidence(KeyEntry("What is 40 + 2?", "42", "arithmetic", (), ("42",)), text) is found


async def test_what_is_in_the_question_itself_is_no_evidence():
    entry = KeyEntry("Is Fact 7 gold?", "yes", "trivia", ("no",), ("Fact 7",))
    assert not has_evidence(entry, entry.question)


async def test_charges_are_exact_and_nothing_sleeps():
    entry = ENTRIES[0]
    completion = await model().complete([Message("user", entry.question)])
    (charge,) = completion.charges
    assert charge.usage == Usage(input_tokens=4, output_tokens=300)
    assert charge.usd == Decimal("0.003008")
    assert (charge.source, charge.price, charge.latency_s, completion.latency_s) == ("sim", "simulated", 5.0, 5.0)


async def test_an_unknown_question_and_an_unknown_kind():
    completion = await model().complete([Message("user", "Who are you?")])
    assert completion.message.content == DO_NOT_KNOW
    assert not read_statement(DO_NOT_KNOW).sure
    blank = model(skills={}, answer_key=AnswerKey([KeyEntry("Q?", "a", "odd", ())]))
    assert read_statement(await ask(blank, KeyEntry("Q?", "a", "odd", ()))).answer == "unknown"


def test_a_question_that_contains_another_one_is_found_as_itself():
    short, long = KeyEntry("Why?", "a", "k", ()), KeyEntry("Why? And how?", "b", "k", ())
    assert AnswerKey([short, long]).find("Tell me. Why? And how?") is long
    assert AnswerKey([short, long]).find("nothing") is None


@given(st.text(st.characters(categories=("L", "N", "Zs", "P")), min_size=1), st.booleans(), st.integers(0, 5))
def test_statements_read_back(answer, sure, form):
    answer = answer.strip()
    said = Statement(answer, sure)
    if not answer or not read_statement(f"{answer}.").sure:
        return
    assert read_statement(state(said, form)) == said


def test_a_skill_that_is_no_probability_is_named():
    with pytest.raises(UserError, match=r"'sim' has skill 1.2 for 'trivia'"):
        model(skill=1.2)
