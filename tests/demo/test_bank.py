import random

import pytest

from toolorchestra.demo.bank import COLLECTIONS, KINDS, arithmetic, corpus_folder, questions
from toolorchestra.demo.tools import corpus_index
from toolorchestra.judges import make_judge
from toolorchestra.models.simulated import KeyEntry, has_evidence

WRITTEN = [kind for kind in KINDS if kind != "arithmetic"]
AT_LEAST = {"lookup": 120, "easy": 80, "medium": 60, "hard": 70}


def bank(kind):
    return questions(kind, "A") + questions(kind, "B")


@pytest.mark.parametrize("kind", WRITTEN)
def test_the_parts_are_apart_and_large_enough(kind):
    train, held_out = ({question.text for question in questions(kind, part)} for part in "AB")
    assert not train & held_out
    assert len(train) + len(held_out) == len(bank(kind)) >= AT_LEAST[kind], "no question is there twice"
    assert 0.35 < len(held_out) / len(bank(kind)) < 0.45


def test_no_document_is_asked_about_in_both_parts():
    train, held_out = ({question.evidence.split()[0] for question in questions("lookup", part)} for part in "AB")
    sources = [{_source(question) for question in questions("lookup", part)} for part in "AB"]
    assert not sources[0] & sources[1]
    assert train
    assert held_out


def _source(question):
    return corpus_index().search(question.evidence, top_k=1, collection=question.collection)[0].passage.source


@pytest.mark.parametrize("kind", WRITTEN)
async def test_every_right_answer_is_right_and_no_wrong_one_is(kind):
    judge = make_judge("exact")
    for question in bank(kind):
        gold = (question.answer, *question.aliases)
        assert len(question.text.split()) <= 25
        assert len(question.distractors) >= 3, question.text
        assert (await judge.judge(question.text, f"{question.answer}.", gold)).correct, question.text
        for wrong in question.distractors:
            assert not (await judge.judge(question.text, wrong, gold)).correct, (question.text, wrong)


def test_every_look_up_finds_its_passage_in_its_collection_and_only_there():
    index = corpus_index()
    found_elsewhere = 0
    for question in bank("lookup"):
        entry = KeyEntry(question.text, question.answer, "lookup", (), (question.evidence,))
        for collection in COLLECTIONS:
            hits = index.search(question.text, top_k=1, collection=collection)
            found = bool(hits) and has_evidence(entry, hits[0].passage.text)
            if collection == question.collection:
                assert found, (question.text, hits and hits[0].passage.source)
            else:
                found_elsewhere += found
    assert found_elsewhere == 0


def test_the_corpus_is_small_documents_in_its_collections():
    assert sorted(path.name for path in corpus_folder().iterdir()) == sorted(COLLECTIONS)
    for collection in COLLECTIONS:
        documents = list((corpus_folder() / collection).glob("*.md"))
        assert len(documents) == 15
        assert all(len(path.read_text(encoding="utf-8").split()) <= 42 for path in documents)


@pytest.mark.parametrize("part", ["A", "B"])
def test_arithmetic_is_exact_readable_and_within_the_calculators_pattern(part):
    rng = random.Random(part)
    for _ in range(300):
        question = arithmetic(rng, part)
        assert set(question.expression) <= set("0123456789+*()/ -")
        assert len(question.expression) <= 40
        # Our own generated text of digits and operators, checked on the line above.
        assert str(eval(question.expression)) == question.answer
        assert question.expression in question.text
        assert question.answer not in question.distractors
        assert len(set(question.distractors)) == 4


def test_held_out_arithmetic_also_has_phrases_that_training_has_not():
    def phrases(part):
        rng = random.Random(0)
        made = (arithmetic(rng, part) for _ in range(300))
        return {question.text.replace(question.expression, "{}") for question in made}

    assert len(phrases("A")) == 6
    assert len(phrases("B") - phrases("A")) == 3
