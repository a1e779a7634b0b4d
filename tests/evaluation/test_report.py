import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from toolorchestra.evaluation import Claim, Example, ReportData, Split, render_report, summarise, write_report
from toolorchestra.evaluation.episodes import episode_view
from toolorchestra.messages import Message

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


class Page(HTMLParser):
    """Elements, their attributes, the text outside scripts, and the scripts."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text, self.scripts = [], [], []
        self._inside = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._inside.pop()

    def handle_data(self, data):
        if not self._inside:
            self.text.append(data)
        elif self._inside[-1][0] == "script":
            self.scripts.append((self._inside[-1][1].get("type"), data))

    def code(self):
        return [text for kind, text in self.scripts if kind is None]

    def says(self, text):
        return " ".join(text.split()) in " ".join("".join(self.text).split())


@pytest.fixture(scope="module")
def page(report_data):
    return render_report(report_data)


def test_the_page_says_what_there_is_to_say(page):
    parsed = Page(page)
    for text in [
        "A trained orchestrator against its baselines",
        "The market is simulated",
        "held-out prices",
        "Cost at most 40% of the dearest model's",
        "of the cost of ask_large",
        "1 missing",
        "Following the user's preference",
        "make demo",
        '"seed": 0',
        "after 80 steps of GRPO",
    ]:
        assert parsed.says(text), text


def test_the_page_is_self_contained(page):
    parsed = Page(page)
    links = [attrs for _, attrs in parsed.elements if attrs.keys() & {"src", "href", "srcset", "action", "data"}]
    assert links == []
    assert "url(" not in re.search(r"<style>(.*?)</style>", page, re.S).group(1)
    assert page.count("plotly.js v") == 1


def test_only_our_own_scripts_may_run(page):
    parsed = Page(page)
    policy = next(attrs["content"] for tag, attrs in parsed.elements if attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    allowed = re.search(r"script-src ([^;]*)", policy).group(1).split()
    found = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in parsed.code()]
    assert allowed == [f"'sha256-{fingerprint}'" for fingerprint in found]
    assert len(found) == 2


def test_every_picture_has_its_json_and_words_for_who_cannot_see_it(page):
    parsed = Page(page)
    charts = [attrs for _, attrs in parsed.elements if attrs.get("class") == "chart"]
    figures = [json.loads(text) for kind, text in parsed.scripts if kind == "application/json"]
    assert len(charts) == len(figures) == 1 + 6 + 6 + 1
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in charts)
    assert all(figure["data"] for figure in figures)


def test_untrusted_text_stays_text(make, page):
    trajectory = make({EVIL: 1}, usd="0.1", answer=EVIL, kind=EVIL, task_id=EVIL, policy=EVIL, result=EVIL, malformed=1)
    trajectory = replace(trajectory, start=(Message("system", EVIL), Message("user", EVIL)))
    data = ReportData(
        title=EVIL,
        summary=EVIL,
        notice=EVIL,
        focus=EVIL,
        reference=EVIL,
        descriptions={EVIL: EVIL},
        splits=[Split(EVIL, list(summarise({EVIL: [trajectory]}, reference=EVIL).values()), EVIL)] * 2,
        learning=[{"step": 1, "reward": 1.0, f"calls.{EVIL}": 1.0, "series": EVIL}],
        claims=[Claim(EVIL, EVIL, EVIL, True)],
        examples=[Example(trajectory, title=EVIL, expected=EVIL, note=EVIL)],
        settings={EVIL: EVIL},
        command=EVIL,
        created=EVIL,
    )
    parsed = Page(render_report(data))
    assert parsed.code() == Page(page).code()
    assert not [tag for tag, _ in parsed.elements if tag == "img"]
    assert not [attrs for _, attrs in parsed.elements if "onerror" in attrs]
    assert parsed.says(EVIL)


@pytest.mark.parametrize(
    "part",
    ["splits", "learning", "adherence", "claims", "examples", "settings", "descriptions"],
)
def test_any_part_may_be_missing(report_data, part):
    render_report(replace(report_data, **{part: type(getattr(report_data, part))()}))


def test_a_report_of_nothing_is_small_and_runs_no_script():
    html = render_report(ReportData(title="Nothing yet"))
    assert len(html) < 20_000
    parsed = Page(html)
    assert parsed.code() == []
    assert any("script-src 'none'" in attrs.get("content", "") for _, attrs in parsed.elements)


def test_unknown_numbers_are_called_unknown(make):
    systems = {"s": [make(usd=None)], "paid": [make(usd="0.5")], "lost": [make(status="missing", outcome=None)]}
    data = ReportData(title="t", focus="s", reference="s", splits=[Split("x", list(summarise(systems).values()))])
    parsed = Page(render_report(data))
    assert parsed.says("1 of unknown cost")
    assert parsed.says("unknown")
    assert parsed.says("Not drawn, as cost or accuracy is unknown or the cost is 0: s, lost.")
    assert not re.search(r"\$0(?![.\d])", "".join(parsed.text).replace("never taken as $0", ""))


def test_writing_is_whole_and_repeatable(tmp_path, report_data, page):
    path = write_report(tmp_path / "runs" / "report.html", report_data)
    assert path.read_text(encoding="utf-8") == page
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]
    write_report(path, ReportData(title="caf\u00e9"))
    assert "<h1>café</h1>" in path.read_text(encoding="utf-8")


def test_a_failed_write_leaves_the_old_report(tmp_path):
    target = tmp_path / "report.html"
    target.mkdir()
    with pytest.raises(OSError, match="report"):
        write_report(target, ReportData(title="t"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_episodes_are_bounded(make):
    trajectory = make({"search": 1}, result="r" * 100_000)
    long = replace(trajectory, steps=trajectory.steps * 40)
    view = episode_view(Example(long))
    assert (len(view.turns), view.turns_left_out) == (30, 50)
    assert len(view.turns[0].calls[0].result) < 5_000
    html = render_report(ReportData(title="t", examples=[Example(trajectory)] * 30))
    assert html.count('class="episode"') == 24
    assert Page(html).says("6 more episodes are not shown")


def test_an_episode_shows_what_went_wrong(make):
    view = episode_view(Example(make(malformed=1, usd=None, solved=False)))
    assert view.verdict == "wrong"
    assert view.cost.startswith("cost unknown")
    (call,) = view.turns[0].calls
    assert call.failed
    assert (call.arguments, call.result) == ('{"inp', "not valid JSON")
    assert episode_view(Example(make(status="missing", outcome=None, error="no server"))).reason == "no server"


def test_the_face_is_light():
    heavy = ("plotly", "jinja2", "scipy", "torch")
    code = f"import sys, toolorchestra.evaluation; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
