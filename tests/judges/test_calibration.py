from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.judges import Labelled, calibrate
from toolorchestra.judges.calibration import wilson_low

LABELLED = [
    Labelled(99, True, True),
    Labelled(95, False, False),
    Labelled(90, True, True),
    Labelled(90, True, False),
    Labelled(60, True, True),
    Labelled(50, False, True),
    Labelled(None, True, True),
    Labelled(80, None, True),
]


def test_the_lowest_threshold_that_is_precise_enough() -> None:
    strict = calibrate(LABELLED, precision=1.0)
    assert (strict.threshold, strict.precision, strict.kept, strict.coverage) == (95, 1.0, 2, 0.25)
    assert strict.precision_low == pytest.approx(0.34238, abs=1e-5)
    loose = calibrate(LABELLED, precision=0.8)
    assert (loose.threshold, loose.precision, loose.kept) == (60, 0.8, 5)


def test_a_judge_that_is_never_right_enough_always_abstains() -> None:
    result = calibrate([(90.0, True, False), (80.0, True, True)], precision=0.9)
    assert result == (math.inf, None, None, 0.0, 0)


@pytest.mark.parametrize(("labelled", "precision"), [([], 0.9), (LABELLED, 0.0), (LABELLED, 1.5)])
def test_bad_input_is_named(labelled: list[Labelled], precision: float) -> None:
    with pytest.raises(UserError, match=r"label|precision"):
        calibrate(labelled, precision=precision)


def test_wilson_of_a_known_table() -> None:
    assert wilson_low(8, 10) == pytest.approx(0.490162, abs=1e-6)
    assert wilson_low(0, 10) == 0.0


verdicts = st.tuples(st.none() | st.integers(0, 100).map(float), st.none() | st.booleans(), st.booleans())


@given(st.lists(verdicts, min_size=1, max_size=30), st.sampled_from([0.5, 0.8, 0.95, 1.0]))
def test_no_lower_threshold_would_do(labelled: list[tuple[float | None, bool | None, bool]], precision: float) -> None:
    result = calibrate(labelled, precision=precision)
    usable = [(c, j == t) for c, j, t in labelled if c is not None and j is not None]
    for threshold in {c for c, _ in usable} | {result.threshold}:
        kept = [agrees for c, agrees in usable if c >= threshold]
        enough = bool(kept) and sum(kept) / len(kept) >= precision
        if threshold == result.threshold:
            assert enough == (result.kept > 0)
            assert result.kept == len(kept)
        elif threshold < result.threshold:
            assert not enough
    assert calibrate(list(reversed(labelled)), precision=precision) == result
