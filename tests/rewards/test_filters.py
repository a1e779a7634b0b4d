import pytest

from toolorchestra.rewards import count_reasons, unusable_reason, unusable_reasons, verdict
from toolorchestra.trajectory import Outcome


@pytest.mark.parametrize(
    ("changes", "reason", "solved"),
    [
        ({}, None, True),
        ({"solved": False}, None, False),
        ({"status": "missing", "error": "server down"}, "missing", None),
        ({"status": "missing", "malformed": 1}, "missing", None),
        ({"solved": None}, "no_verdict", None),
        ({"solved": None, "malformed": 1}, "no_verdict", None),
        ({"outcome": None}, "no_verdict", None),
        ({"malformed": 1}, "malformed_call", True),
        ({"solved": False, "answer": None, "malformed": 2}, "malformed_call", False),
        ({"solved": False, "answer": None}, "no_answer", False),
        ({"solved": False, "answer": " \n"}, "no_answer", False),
        ({"solved": None, "answer": ""}, "no_answer", False),
        ({"outcome": None, "status": "limit", "limit": "turns"}, "no_answer", False),
        ({"solved": False, "status": "limit"}, None, False),  # a forced last answer counts
        ({"solved": True, "answer": None}, None, True),  # the environment judged a state
    ],
)
def test_why_a_rollout_is_left_out(make, changes, reason, solved):
    trajectory = make(**changes)
    assert unusable_reason(trajectory) == reason
    assert verdict(trajectory) is solved


def test_missing_stays_missing_even_if_an_outcome_was_set(make):
    assert verdict(make(status="missing", outcome=Outcome(False, "x"))) is None


def test_reasons_are_counted(make):
    reasons = unusable_reasons([make(), make(malformed=1), make(malformed=1), make(status="missing")])
    assert reasons == (None, "malformed_call", "malformed_call", "missing")
    assert count_reasons(reasons) == {"malformed_call": 2, "missing": 1}
