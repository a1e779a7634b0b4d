"""The documentation is run: Python as it stands, settings through their reader, commands through the parser."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import runpy
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
import yaml

from toolorchestra import Task, UnreachableError, UserError, read_tasks
from toolorchestra.cli import app
from toolorchestra.cli.failures import INTERRUPTED, UNEXPECTED
from toolorchestra.config import Settings, load_settings
from toolorchestra.pricing import read_prices

REPO = Path(__file__).resolve().parents[1]
PAGES = [REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^``` ?\{?\.?(?P<language>\w+)(?P<run>\}?)(?: title=\"(?P<title>.*?)\")?\n(?P<body>.*?)^```$", re.M | re.S
)
PRINTED = re.compile(r"^# > ?(.*)$", re.MULTILINE)
TABLES = runpy.run_path(str(REPO / "docs/make_tables.py"))


class Block(NamedTuple):
    """A fenced block. One that is only shown is fenced as ``` {.python}."""

    language: str
    shown_only: bool
    title: str
    body: str


def blocks(language: str) -> list[Any]:
    """Every block in one language, named by its page and line."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            if match["language"] == language:
                place = f"{page.relative_to(REPO)}:{text.count(chr(10), 0, match.start()) + 1}"
                block = Block(language, bool(match["run"]), match["title"] or "", match["body"])
                found.append(pytest.param(block, id=place))
    return found


@pytest.mark.parametrize("block", blocks("python"))
def test_python_runs_and_prints_what_is_shown(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if block.shown_only:
        for node in ast.walk(ast.parse(block.body)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, name.name) for name in node.names)
        return
    monkeypatch.chdir(tmp_path)
    exec(compile(block.body, "<documentation>", "exec", dont_inherit=True), {"__name__": "__main__"})
    expected = PRINTED.findall(block.body)
    if expected:
        assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("block", blocks("json"))
def test_task_examples_can_be_read(block: Block, tmp_path: Path) -> None:
    decoder, rows, rest = json.JSONDecoder(), [], block.body.strip()
    while rest:
        row, end = decoder.raw_decode(rest)
        rows.append(row)
        rest = rest[end:].strip()
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert len(read_tasks(file)) == len(rows)


@pytest.mark.parametrize("block", blocks("yaml"))
def test_settings_and_price_files_can_be_read(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "example.yaml"
    file.write_text(block.body, encoding="utf-8")
    if block.title.endswith("prices.yaml"):
        assert read_prices(file)
    else:
        assert load_settings(file, check_files=False).dump()["orchestrator"]["model"]


def commands() -> list[Any]:
    """Every line of a shell block."""
    lines = [(param.id, line) for param in blocks("bash") for line in param.values[0].body.splitlines()]
    return [pytest.param(line, id=f"{place}:{line[:40]}") for place, line in lines if line.strip()]


@pytest.mark.parametrize("line", commands())
def test_commands_exist_with_these_options(line: str) -> None:
    words = shlex.split(line, comments=True)
    if words[:1] == ["toolorchestra"]:
        command = typer.main.get_command(app).commands[words[1]]
        command.make_context(words[1], words[2:])
    elif words[:1] == ["make"]:
        targets = re.findall(r"^([a-z]+):", (REPO / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert {word for word in words[1:] if "=" not in word} <= set(targets)
    elif words[:2] == ["python", "-m"] and words[2] != "pip":
        assert importlib.util.find_spec(words[2]) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_tables_say_what_the_code_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tables = TABLES["made"]()
    assert set(TABLES["names_in"](text)) <= {*tables, TABLES["DEMO"]}
    assert TABLES["filled"](text, tables) == text, "run: python docs/make_tables.py"


def test_the_settings_reference_has_every_section() -> None:
    page = (REPO / "docs/reference/settings.md").read_text(encoding="utf-8")
    named = set(TABLES["names_in"](page))
    assert named == {"settings of Settings", *(f"settings of {name}" for name in Settings.model_json_schema()["$defs"])}


def test_the_command_reference_has_every_command_and_exit_code() -> None:
    page = (REPO / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert set(TABLES["names_in"](page)) == {f"options of {name}" for name in typer.main.get_command(app).commands}
    codes = {0, UNEXPECTED, UserError.exit_code, UnreachableError.exit_code, INTERRUPTED}
    for name in ("cli.md", "failures.md"):
        text = (REPO / "docs/reference" / name).read_text(encoding="utf-8").partition("## Exit codes")[2]
        assert {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == codes


def test_the_task_reference_names_every_key_of_a_task() -> None:
    page = (REPO / "docs/reference/task-files.md").read_text(encoding="utf-8")
    keys = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    row = Task(id="1", question="What is 1?", answer="1").to_json()
    assert keys == {*row, *row["preference"]}


def test_every_page_is_in_the_navigation() -> None:
    config = yaml.load((REPO / "mkdocs.yml").read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    listed = set(re.findall(r"[\w/-]+\.md", json.dumps(config["nav"])))
    assert listed == {page.relative_to(REPO / "docs").as_posix() for page in PAGES if page.name != "README.md"}


def test_the_demos_figures_are_filled_in_from_its_summary(tmp_path: Path) -> None:
    known, unknown = {"value": 0.9, "low": 0.85, "high": 0.95, "n": 80}, None
    system = {"name": "orchestrator", "accuracy": known, "cost_usd": known, "cost_ratio": unknown}
    claim = {"text": "Cost", "measured": "30%", "target": "at most 40%", "met": True}
    row = {**system, "latency_s": known, "reward": known}
    summary = {"splits": {"test": [row]}, "claims": [claim]}
    (tmp_path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    made = TABLES["demo_result"](tmp_path)
    assert "| orchestrator | 90.0% (85.0% to 95.0%) | $900 ($850 to $950) | – |" in made
    assert "| Cost | 30% | at most 40% | yes |" in made
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    assert made in TABLES["filled"](readme, {TABLES["DEMO"]: made})
