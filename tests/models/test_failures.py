"""Failures told apart by who must act."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import ModelFacingError, RetryableError, ToolOrchestraError, UnreachableError, UserError
from toolorchestra.models.failures import ContextLengthError, Endpoint, RequestRefusedError, classify, error_status

WHERE = Endpoint("small", "org/small", "http://host/v1", "SMALL_KEY")


def said(message: str, code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "code": code}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, said("bad key"), UnreachableError),
        (403, said("not allowed"), UnreachableError),
        (402, said("no credit"), UserError),
        (404, said("the model does not exist"), UserError),
        (400, said("unknown parameter: top_q"), UserError),
        (422, {"detail": [{"loc": ["body"]}]}, UserError),
        (308, "", UserError),
        (429, said("slow down"), RetryableError),
        (429, said("You exceeded your current quota", "insufficient_quota"), UserError),
        (408, "", RetryableError),
        (500, "<html>oops</html>", RetryableError),
        (503, said("overloaded"), RetryableError),
        (529, None, RetryableError),
        (400, said("too long", "context_length_exceeded"), ContextLengthError),
        (413, "Payload Too Large", ContextLengthError),
        (400, said("flagged", "content_filter"), RequestRefusedError),
        (400, said("violates our usage policies"), RequestRefusedError),
    ],
)
def test_kind_by_status_and_words(status: int, body: Any, kind: type[Exception]) -> None:
    assert type(classify(WHERE, status, body)) is kind


def test_a_refused_text_is_for_the_model_to_read() -> None:
    assert isinstance(classify(WHERE, 400, said("prompt is too long")), ModelFacingError)


def test_key_errors_name_the_variable_only() -> None:
    assert "SMALL_KEY" in str(classify(WHERE, 401, said("bad")))
    keyless = Endpoint("small", "m", "http://host/v1")
    assert "api_key_env" in str(classify(keyless, 401, said("bad")))


def test_not_found_names_model_and_url() -> None:
    text = str(classify(WHERE, 404, said("nope")))
    assert "org/small" in text
    assert "http://host/v1" in text


@pytest.mark.parametrize(
    ("message", "allowed", "used"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            8192,
            9000,
        ),
        (
            "This model's maximum context length is 2048 tokens. However, you requested 4097 tokens (4000 in the "
            "messages, 97 in the completion).",
            2048,
            4097,
        ),
        ("prompt is too long: 210000 tokens > 200000 maximum", None, 210000),
        ("the context window is exceeded", None, None),
    ],
)
def test_context_numbers_are_read_where_stated(message: str, allowed: int | None, used: int | None) -> None:
    error = classify(WHERE, 400, said(message))
    assert isinstance(error, ContextLengthError)
    assert (error.allowed, error.used) == (allowed, used)


def test_html_pages_and_long_messages_do_not_fill_the_screen() -> None:
    assert "<html" not in str(classify(WHERE, 502, "<!doctype html><HTML>" + "x" * 10_000))
    assert len(str(classify(WHERE, 400, said("y" * 10_000)))) < 1_000


def test_what_looks_like_a_key_is_hidden() -> None:
    for body in (said("key sk-live-abcdefgh12345678 is bad"), "key sk-live-abcdefgh12345678 is bad"):
        assert "abcdefgh" not in str(classify(WHERE, 400, body))


def test_retry_after_is_kept() -> None:
    error = classify(WHERE, 429, said("slow"), 7.0)
    assert isinstance(error, RetryableError)
    assert error.retry_after_s == 7.0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 429}, 429),
        ({"code": "503"}, 503),
        ({"status": 400}, 400),
        ({"code": "rate_limit"}, 502),
        ({"code": True}, 502),
        ({"code": 200}, 502),
        ({"code": "9" * 5000}, 502),
        ("broken", 502),
    ],
)
def test_status_of_an_error_inside_a_success(error: Any, status: int) -> None:
    assert error_status(error) == status


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["error", "message", "code"]), inner),
    max_leaves=8,
)


@given(status=st.integers(100, 599), body=json_values)
def test_any_body_is_classified(status: int, body: Any) -> None:
    assert isinstance(classify(WHERE, status, body), ToolOrchestraError)
