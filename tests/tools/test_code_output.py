"""Bounded text and bounded repr."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.tools.code.output import BoundedText, bounded_repr


@given(st.lists(st.binary(max_size=40)), st.integers(1, 60), st.sampled_from([0.0, 0.25, 0.75, 1.0]))
def test_what_fits_is_kept_whole_and_the_rest_counted(blocks: list[bytes], limit: int, head: float) -> None:
    kept = BoundedText(limit, head=head)
    for block in blocks:
        kept.add(block)
    whole = b"".join(blocks)
    assert kept.total == len(whole)
    if len(whole) <= limit:
        assert kept.text() == whole.decode(errors="replace")
    else:
        start = int(limit * head)
        end = limit - start
        text = kept.text()
        assert text.startswith(whole[:start].decode(errors="replace"))
        assert text.endswith((whole[-end:] if end else b"").decode(errors="replace"))
        assert f"[{len(whole) - limit} bytes left out]" in text


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner) | st.sets(st.integers()),
)


@given(plain)
def test_a_short_repr_is_the_usual_one(value: Any) -> None:
    assert bounded_repr(value, 1_000_000) == repr(value)


@given(plain, st.integers(1, 50))
def test_a_long_repr_is_bounded(value: Any, limit: int) -> None:
    assert len(bounded_repr(value, limit)) <= 10 * limit + 400


def test_shared_and_deep_and_circular_values_end() -> None:
    shared: list[Any] = [1]
    for _ in range(60):
        shared = [shared, shared]
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    circle: list[Any] = []
    circle.append(circle)
    started = time.monotonic()
    assert all(len(bounded_repr(value, 2_000)) < 3_000 for value in (shared, deep, circle))
    assert time.monotonic() - started < 0.5


def test_no_method_of_an_unknown_object_is_called() -> None:
    class Trap:
        def __repr__(self) -> str:
            pytest.fail("the object's own code was run")

    assert bounded_repr([Trap()], 100) == "[<Trap>]"
