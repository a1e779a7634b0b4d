"""Local search: reading a folder, ranking, and what the model is told."""

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.tools import CallContext, LocalSearch, Passage, read_folder
from toolorchestra.tools.search import Bm25Index, Hit, chunk_text
from toolorchestra.tools.search.index import words

CONTEXT = CallContext(question="How long is the river Arno?")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rivers").mkdir()
    (tmp_path / "people").mkdir()
    (tmp_path / ".hidden.txt").write_text("arno secret")
    (tmp_path / "rivers" / "italy.md").write_text("# Rivers of Italy\n\nThe Arno is 241 km long.\n\nThe Po is longer.")
    (tmp_path / "people" / "names.jsonl").write_text(
        json.dumps({"id": "p1", "title": "Arno Schmidt", "text": "A German writer, born in Hamburg."})
        + "\n\n"
        + json.dumps({"text": "Ada Lovelace wrote the first program."})
        + "\n"
    )
    (tmp_path / "readme.txt").write_text("Texts about rivers and people.")
    return tmp_path


async def test_finds_and_cites(folder: Path) -> None:
    result = await LocalSearch.from_folder(folder).call({"query": "length of the Arno, in km long"}, CONTEXT)
    assert result.error is None
    assert result.content.startswith("[1] rivers/italy.md#1 (score 0.")
    assert "The Arno is 241 km long." in result.content
    assert "[2] Arno Schmidt - people/names.jsonl:p1 (score" in result.content
    assert result.data["sources"][0] == "rivers/italy.md#1"
    assert "secret" not in result.content


async def test_top_k_is_respected_and_bounded(folder: Path) -> None:
    tool = LocalSearch.from_folder(folder, top_k=1)
    query = "rivers people Arno Ada"
    assert len((await tool.call({"query": query}, CONTEXT)).data["sources"]) == 1
    assert len((await tool.call({"query": query, "top_k": 10_000}, CONTEXT)).data["sources"]) == 4
    assert tool.spec.parameters["properties"]["top_k"]["maximum"] == 20


async def test_a_collection_restricts(folder: Path) -> None:
    tool = LocalSearch.from_folder(folder, collections=True)
    assert tool.spec.parameters["properties"]["collection"]["enum"] == ["people", "rivers"]
    result = await tool.call({"query": "Arno", "collection": "people"}, CONTEXT)
    assert result.data["sources"] == ["people/names.jsonl:p1"]
    nothing = await tool.call({"query": "Hamburg", "collection": "rivers"}, CONTEXT)
    assert nothing.content == "Nothing in the collection 'rivers' matches 'Hamburg'. Try other words."
    assert "collection" not in LocalSearch.from_folder(folder).spec.parameters["properties"]


async def test_the_question_is_the_query_on_request(folder: Path) -> None:
    tool = LocalSearch.from_folder(folder, query_from_question=True)
    assert tool.spec.parameters["properties"] == {}
    assert tool.spec.parameters["required"] == []
    assert "241 km" in (await tool.call({}, CONTEXT)).content


async def test_nothing_found_is_no_error_and_an_empty_query_is(folder: Path) -> None:
    tool = LocalSearch.from_folder(folder)
    for query in ("zebra", "the of and", "???"):
        result = await tool.call({"query": query}, CONTEXT)
        assert (result.error, result.data["sources"]) == (None, [])
        assert result.content.startswith("Nothing matches")
    empty = await tool.call({"query": "  "}, CONTEXT)
    assert empty.error == "the query is empty: say what to search for"


class Broken:
    """An index that fails."""

    def search(self, query: str, *, top_k: int, collection: str | None = None) -> Sequence[Hit]:
        raise OSError("disk gone")


async def test_a_failure_is_not_an_empty_result() -> None:
    """The class of search-03: the model must not conclude that nothing exists."""
    result = await LocalSearch(Broken()).call({"query": "x"}, CONTEXT)
    assert result.error == "the search could not be made (OSError: disk gone)"
    assert result.content.startswith("The search could not be made")


async def test_simulated_seconds_and_fee(folder: Path) -> None:
    tool = LocalSearch.from_folder(folder, latency_s=0.5, fee=lambda seconds: Decimal("0.008"))
    result = await tool.call({"query": "Arno"}, CONTEXT)
    assert result.latency_s == 0.5
    assert [(charge.source, charge.usd) for charge in result.charges] == [("local_search", Decimal("0.008"))]


def test_scores_are_the_covered_share_of_the_query() -> None:
    index = Bm25Index([Passage("a", "alpha beta gamma"), Passage("b", "alpha alpha"), Passage("c", "delta")])
    (best,) = index.search("delta", top_k=3)
    assert best.passage.source == "c"
    assert 0 < best.score < 1
    assert index.search("delta unknown", top_k=1)[0].score < best.score
    assert [hit.passage.source for hit in index.search("alpha", top_k=3)] == ["b", "a"]
    assert index.search("delta delta delta", top_k=1)[0].score == best.score


def test_the_score_is_the_formula_in_the_docstring() -> None:
    """N = 2, df = 1: idf = ln(1 + 1.5 / 1.5) = ln 2 cancels; tf 1, length 1, mean 2: 1 / (1 + 1.5 · (0.25 + 0.375))."""
    index = Bm25Index([Passage("a", "alpha"), Passage("b", "beta gamma delta")])
    assert index.search("alpha", top_k=1)[0].score == pytest.approx(1 / (1 + 1.5 * 0.625), abs=1e-6)


@given(st.lists(st.text("abcde ", min_size=1), min_size=1, max_size=8), st.text("abcdef ", min_size=1))
def test_scores_stay_in_bounds_and_repeat(texts: list[str], query: str) -> None:
    passages = [Passage(str(number), f"{text} word") for number, text in enumerate(texts)]
    hits = Bm25Index(passages).search(query, top_k=5)
    assert all(0 < hit.score < 1 for hit in hits)
    assert hits == sorted(hits, key=lambda hit: -hit.score)
    assert hits == Bm25Index(passages).search(query, top_k=5)


def test_equal_scores_keep_the_order() -> None:
    index = Bm25Index([Passage(str(number), "same words") for number in range(30)])
    assert [hit.passage.source for hit in index.search("same", top_k=4)] == ["0", "1", "2", "3"]


def test_words() -> None:
    assert words("The CITIES, buses and the glass of Straße") == ["city", "buse", "glass", "strasse"]
    assert words("河流 Arno") == ["河", "流", "arno"]


@given(st.text("ab .\n#", max_size=300), st.integers(1, 40))
def test_chunks_fit_and_lose_no_letter(text: str, size: int) -> None:
    chunks = chunk_text(text, size)
    assert all(0 < len(chunk) <= size for chunk in chunks)
    assert "".join("".join(chunks).split()) == "".join(text.split())


def test_a_heading_begins_a_chunk() -> None:
    assert chunk_text("one\n\n# Two\n\nthree", 100) == ["one", "# Two\n\nthree"]


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "line 2 is not JSON"), ("[1]", "line 2 must be an object"), ('{"text": 5}', "line 2 must be an object")],
)
def test_a_bad_line_names_itself(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "fine"}\n' + line)
    with pytest.raises(UserError, match=message):
        read_folder(tmp_path, chunk_chars=100)


def test_bad_folders_name_themselves(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing does not exist; give a folder of \.txt"):
        LocalSearch.from_folder(tmp_path / "missing")
    (tmp_path / "image.png").write_bytes(b"\x00")
    with pytest.raises(UserError, match="holds no text"):
        LocalSearch.from_folder(tmp_path)
    (tmp_path / "a.txt").write_text("...")
    with pytest.raises(UserError, match="no words"):
        LocalSearch.from_folder(tmp_path)
    (tmp_path / "a.txt").write_text("words")
    with pytest.raises(UserError, match="no subfolders"):
        LocalSearch.from_folder(tmp_path, collections=True)
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UserError, match=r"b\.txt cannot be read as UTF-8"):
        LocalSearch.from_folder(tmp_path)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UserError, match="top_k"):
        LocalSearch(Broken(), top_k=0)
    with pytest.raises(UserError, match="tool name"):
        LocalSearch(Broken(), name="local search")


def test_nothing_is_written_to_the_terminal(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    LocalSearch.from_folder(folder)
    assert capfd.readouterr() == ("", "")
