"""Waiting between attempts: bounded, jittered, and as the server asks."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.models.retries import Retries, parse_retry_after

NOW = datetime(2025, 1, 6, 10, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("Mon, 06 Jan 2025 10:00:30 GMT", 30.0),
        ("Mon, 06 Jan 2025 10:00:30 -0000", 30.0),
        ("45", 45.0),
        (" 0.5 ", 0.5),
        ("3600", 3600.0),
        ("soon", None),
        ("-5", None),
        ("0", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        (None, None),
        ("Mon, 06 Jan 2025 09:59:00 GMT", None),
        ("Mon, 99 Jan 2025 10:00:30 GMT", None),
    ],
)
def test_retry_after(header: str | None, wait: float | None) -> None:
    assert parse_retry_after(header, now=NOW) == wait


def test_retry_after_date_is_compared_across_time_zones() -> None:
    east = NOW.astimezone(timezone(timedelta(hours=9)))
    assert parse_retry_after("Mon, 06 Jan 2025 10:00:30 GMT", now=east) == 30.0


@given(st.text(max_size=60))
def test_retry_after_never_raises_and_is_positive(header: str) -> None:
    wait = parse_retry_after(header, now=NOW)
    assert wait is None or 0 < wait < float("inf")


def test_what_the_server_asks_is_obeyed_up_to_the_cap() -> None:
    retries, rng = Retries(attempts=3, retry_after_cap_s=120), random.Random(0)
    assert retries.wait_s(1, 45.0, rng) == 45.0
    assert retries.wait_s(1, 120.0, rng) == 120.0
    # Beyond the cap an earlier attempt would hit the same limit: fail at once.
    assert retries.wait_s(1, 3600.0, rng) is None
    assert retries.wait_s(3, 1.0, rng) is None


@given(attempt=st.integers(1, 10_000), seed=st.integers(0, 99))
def test_back_off_grows_within_its_cap(attempt: int, seed: int) -> None:
    retries = Retries(attempts=100_000, base_s=0.5, cap_s=30.0)
    wait = retries.wait_s(attempt, None, random.Random(seed))
    full = min(30.0, 0.5 * 2.0 ** (attempt - 1)) if attempt < 100 else 30.0
    assert wait is not None
    assert full / 2 <= wait <= full


def test_back_off_is_jittered() -> None:
    waits = {Retries().wait_s(1, None, random.Random(seed)) for seed in range(20)}
    assert len(waits) == 20


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"base_s": -1.0}, {"cap_s": -1.0}, {"retry_after_cap_s": -0.1}])
def test_impossible_settings_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match="retries"):
        Retries(**wrong)  # type: ignore[arg-type]
