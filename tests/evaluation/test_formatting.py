import pytest

from toolorchestra.evaluation import Estimate
from toolorchestra.evaluation import formatting as f


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "$0"), (0.00123, "$0.00123"), (0.021, "$0.021"), (0.4, "$0.40"), (1234.0, "$1,234.00"), (-0.5, "−$0.50")],
)
def test_dollars(value, text):
    assert f.dollars(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.4, "0.40 s"), (12.34, "12.3 s"), (200.0, "3 min 20 s")])
def test_seconds(value, text):
    assert f.seconds(value) == text


def test_shares():
    assert (f.percent(0.9354), f.whole_percent(0.405), f.whole_percent(0.0312)) == ("93.5%", "40%", "3.1%")
    assert (f.points(0.021), f.points(-0.021)) == ("+2.1", "−2.1")
    assert f.about_dollars(0.00123) == "$0.0012"


def test_interval():
    assert f.interval(Estimate(0.5, 0.4, 0.6, 9), f.percent) == "[40.0%, 60.0%]"
    assert f.interval(Estimate(0.5, None, None, 1), f.percent) == ""


def test_untrusted_text_is_bounded_and_cannot_deceive():
    assert f.safe_text("a" * 50, 10) == "aaaaaaaaaa … (40 more characters)"
    assert f.safe_text("a\x1b[31m\u202egnp.exe\ud800\r") == "a\ufffd[31m\ufffdgnp.exe\ufffd\ufffd"
    assert f.safe_text("two\nlines\tand tabs") == "two\nlines\tand tabs"
