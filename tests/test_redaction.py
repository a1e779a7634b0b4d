import pytest

from toolorchestra.redaction import describe_error, describe_traceback, hide_known, redact, shorten


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [hidden]"),
        ("Incorrect API key provided: sk-proj-abcdefgh1234", "Incorrect API key provided: [hidden]"),
        ("GET https://host/v1?key=abcdef12&x=1", "GET https://host/v1?key=[hidden]&x=1"),
        ("http://user:secret@host:8000/v1", "http://[hidden]@host:8000/v1"),
        ("the task asks for a token", "the task asks for a token"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
    ],
)
def test_forms_of_secrets_are_blanked(text, safe):
    assert redact(text) == safe


def test_known_secrets_are_blanked_and_ordinary_values_are_not(monkeypatch):
    monkeypatch.setenv("MY_PASSWORD", "correct-horse-battery")
    monkeypatch.setenv("SHORT_TOKEN", "false")
    monkeypatch.setenv("GREETING", "good-morning-everyone")
    assert hide_known("correct-horse-battery is false, good-morning-everyone") == (
        "[hidden] is false, good-morning-everyone"
    )


def test_an_error_is_one_bounded_line():
    assert describe_error(ValueError("a\n b")) == "ValueError: a b"
    assert describe_error(KeyError()) == "KeyError"
    assert len(describe_error(ValueError("x" * 10**6))) < 400


def test_a_traceback_keeps_its_end():
    try:
        raise ValueError("x" * 5000 + " sk-abcdefgh12345678 the end")
    except ValueError as error:
        words = describe_traceback(error, max_chars=100)
    assert words.endswith("[hidden] the end\n")
    assert len(words) == 100


def test_a_cut_is_noted():
    assert shorten("abc", 3) == "abc"
    assert shorten("abcd", 3) == "abc\n[cut: 3 of 4 characters are shown]"
