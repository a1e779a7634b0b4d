import json
import os
import stat
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.files import JsonLines, to_json_text, write_atomic

VALUES = [{"n": number, "text": "ä\u2028\n" * number} for number in range(4)]


def test_what_is_appended_is_read_in_order(tmp_path):
    lines = JsonLines(tmp_path / "x.jsonl")
    assert list(lines.read()) == []
    for value in VALUES:
        lines.append(value)
    assert list(lines.read()) == VALUES  # before it is closed
    lines.close()
    lines.append({"n": 4})
    lines.close()
    assert list(lines.read()) == [*VALUES, {"n": 4}]


@given(cut=st.integers(0, 400), more=st.booleans())
def test_a_kill_at_any_byte_loses_at_most_the_torn_record(tmp_path_factory, cut, more):
    path = tmp_path_factory.mktemp("kill") / "x.jsonl"
    lines = JsonLines(path)
    for value in VALUES:
        lines.append(value)
    lines.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    assert list(lines.read()) == VALUES[:kept]
    if more:
        lines.append({"n": "new"})
        lines.close()
        assert list(lines.read()) == [*VALUES[:kept], {"n": "new"}]
    else:
        assert lines.repair() == len(whole[:cut]) - whole[:cut].rfind(b"\n") - 1
        assert lines.repair() == 0


def test_a_torn_line_longer_than_a_block_is_found(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"n":1}\n' + b"x" * 200_000)
    assert JsonLines(path).repair() == 200_000
    assert path.read_bytes() == b'{"n":1}\n'


@pytest.mark.parametrize("line", ["{", "[]", "3", "", "[" * 100_000])
def test_a_bad_line_in_the_middle_is_named(tmp_path, line):
    path = tmp_path / "x.jsonl"
    path.write_text('{"n":1}\n' + line + '\n{"n":2}\n')
    with pytest.raises(UserError, match=r"x.jsonl:2: not .*remove the line"):
        list(JsonLines(path).read())


def test_half_a_surrogate_pair_is_written(tmp_path):
    lines = JsonLines(tmp_path / "x.jsonl")
    lines.append({"text": "\ud83d", "usd": Decimal("0.10")})
    assert list(lines.read()) == [{"text": "\ud83d", "usd": "0.10"}]
    lines.close()


def test_a_write_that_takes_only_a_part_is_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:5]))
    lines = JsonLines(tmp_path / "x.jsonl")
    lines.append({"text": "a longer line"})
    assert list(lines.read()) == [{"text": "a longer line"}]
    lines.close()


def test_odd_values_do_not_lose_a_record():
    value = {
        "path": Path("a/b"),
        "set": {"b", "a"},
        "money": Decimal("1.10"),
        "thing": object,
        "map": MappingProxyType({"a": 1}),
    }
    assert json.loads(to_json_text(value)) == {
        "path": "a/b",
        "set": ["a", "b"],
        "money": "1.10",
        "thing": "<class 'object'>",
        "map": {"a": 1},
    }


def test_secrets_of_the_environment_are_not_written(monkeypatch):
    monkeypatch.setenv("DEMO_API_KEY", "abcdefgh12345678")
    monkeypatch.setenv("DEMO_TOKEN", "false")
    assert json.loads(to_json_text({"said": "my key is abcdefgh12345678", "ok": False})) == {
        "said": "my key is [hidden]",
        "ok": False,
    }


def test_an_atomic_write_replaces_all_or_nothing(tmp_path, monkeypatch):
    umask = os.umask(0)
    os.umask(umask)
    path = tmp_path / "new" / "x.txt"
    write_atomic(path, "old")
    assert path.read_text() == "old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask

    def broken(*args):
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", broken)
        with pytest.raises(OSError, match="killed"):
            write_atomic(path, b"new")
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == ["x.txt"]
    write_atomic(path, b"new")
    assert path.read_text() == "new"
