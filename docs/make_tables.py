"""Fills the generated tables of the documentation, so that they say what the code says.

    python docs/make_tables.py                    settings, commands, market, layers
    python docs/make_tables.py --demo runs/demo   the demo's figures in README.md, too

A table stands between ``<!-- made: NAME -->`` and ``<!-- end -->`` in a page; what is between is replaced. A test says
when a page is behind the code. The demo's figures come from a run, which is not in the repository: no test reads them.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import typer

from toolorchestra.cli import app
from toolorchestra.config import Settings
from toolorchestra.demo import ROLES, WISHES
from toolorchestra.demo.bank import KINDS, questions
from toolorchestra.demo.pipeline import demo_plan
from toolorchestra.demo.roles import Role

REPO = Path(__file__).resolve().parents[1]
PAGES = (REPO / "README.md", *sorted((REPO / "docs").rglob("*.md")))
REGION = re.compile(r"(<!-- made: (?P<name>[^>]+?) -->\n).*?(?=<!-- end -->)", re.DOTALL)
DEMO = "the demo's result"
SHOWN = ("orchestrator", "warm start", "always small", "always dearest", "cheapest first", "by need", "oracle")
"""The systems that the README shows, in this order; the report has them all."""


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


# Settings


def settings_tables() -> dict[str, str]:
    """One table a section, named ``settings of CLASS``."""
    schema = Settings.model_json_schema()
    sections = {"Settings": schema, **schema["$defs"]}
    return {f"settings of {name}": _section(section, sections) for name, section in sections.items()}


def _section(section: Mapping[str, Any], all_of: Mapping[str, Any]) -> str:
    required = section.get("required", ())
    rows = [
        (
            f"`{key}`",
            _kind(field),
            "required" if key in required else _default(field),
            _prose(_described(field, all_of)),
        )
        for key, field in section["properties"].items()
    ]
    return table(("key", "value", "default", "meaning"), rows)


def _described(field: Mapping[str, Any], all_of: Mapping[str, Any]) -> Mapping[str, Any]:
    """The field, or the section that it stands for where the two would say the same."""
    name = str(field.get("$ref", "")).rpartition("/")[2]
    return all_of[name] if name and "description" not in field else field


def _prose(field: Mapping[str, Any]) -> str:
    return " ".join(str(field.get("description", "")).replace("``", "`").split())


def _default(field: Mapping[str, Any]) -> str:
    default = field.get("default")
    if isinstance(default, dict) and default:
        return "as below"
    words = {None: "none", "": "empty", True: "true", False: "false"}
    if isinstance(default, str | bool) or default is None:
        return words.get(default, f"`{default}`")
    return f"{default:g}" if isinstance(default, float) else ("empty" if default in ({}, [], ()) else str(default))


def _kind(field: Mapping[str, Any]) -> str:
    """What may stand there, in a few words."""
    if "$ref" in field:
        return _class(field["$ref"])
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "oneOf" in field:
        return "section"
    if "anyOf" in field:
        return _either(field["anyOf"])
    kinds = {"string": "text", "boolean": "true or false", "integer": "whole number", "number": "number"}
    kind = field.get("type", "")
    if kind == "object":
        inner = field.get("additionalProperties", {})
        return "sections by name" if "oneOf" in inner else f"{_kind(inner)} by name"
    if kind == "array":
        return f"list of {_kind(field['items'])}"
    text = {"path": "path", "date": "date"}.get(field.get("format", ""), kinds.get(kind, "text"))
    return f"{text} {_bounds(field)}".strip()


def _either(options: list[Mapping[str, Any]]) -> str:
    if {"type": "number"} in options and {"type": "string"} in options:
        return "dollars"
    words = list(dict.fromkeys(_kind(option) for option in options if option.get("type") != "null"))
    return " or ".join(words) + (" or `null`" if {"type": "null"} in options else "")


def _bounds(field: Mapping[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    return ", ".join(f"{sign} {field[key]:g}" for key, sign in signs.items() if key in field)


def _class(reference: str) -> str:
    name = reference.rpartition("/")[2]
    return {"PriceRow": "[price](#price)", "TierRow": "[tier](#tiers)"}.get(name, "section")


# Commands


def command_tables() -> dict[str, str]:
    """One table a command, named ``options of NAME``."""
    group = typer.main.get_command(app)
    return {f"options of {name}": _options(command) for name, command in group.commands.items()}


def _options(command: Any) -> str:
    rows = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        argument = parameter.param_type_name == "argument"
        name = f"`{parameter.name.upper()}`" if argument else f"`{parameter.opts[0]}`"
        rows.append((name, _option_default(parameter), str(parameter.help or "")))
    return table(("argument or option", "default", "meaning"), rows)


def _option_default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if parameter.default is None:
        return "none"
    return "off" if parameter.default is False else f"`{parameter.default}`"


# The demo's market


def role_table() -> str:
    """What each role costs, and how quick and how able it is."""
    rows = []
    for role in ROLES.values():
        rows.append(
            (
                role.name,
                f"${_amount(role.usd_per_call * 1000)}",
                ", ".join(role.multipliers),
                ", ".join(role.held_out_multipliers),
                ", ".join(f"{seconds:g}" for seconds in role.latencies_s),
                _skills(role),
            )
        )
    return table(("role", "1,000 calls", "price ×", "held-out price ×", "seconds", "chance of a right answer"), rows)


def _skills(role: Role) -> str:
    known = {} if role.profile is None else role.profile.skills
    return ", ".join(f"{kind} {skill:.0%}" for kind, skill in known.items()) or "–"


def name_table() -> str:
    """The names under which each role appears."""
    rows = [
        (role.name, _quoted(role.wording.names), _quoted(role.wording.held_out_names), role.wording.abilities[0])
        for role in ROLES.values()
    ]
    return table(("role", "names in training", "held-out names", "a description"), rows)


def wish_table() -> str:
    """The wishes, their weights and one wording each."""
    rows = [
        (
            wish.name,
            f"{wish.outcome:g}",
            f"{wish.compute:g}",
            f"{wish.latency:g}",
            ", ".join(f"{role} {weight:g}" for role, weight in wish.roles.items()) or "none",
            next(words for words in wish.words if words),
        )
        for wish in WISHES.values()
    ]
    return table(("wish", "outcome", "compute", "latency", "tools", "a wording"), rows)


def kind_table() -> str:
    """How many questions of each kind there are, for training and held out."""
    rows = []
    for kind in KINDS:
        generated = kind == "arithmetic"
        counts = ("generated", "generated") if generated else [str(len(questions(kind, part))) for part in ("A", "B")]
        rows.append((kind, *counts))
    return table(("kind", "questions to train on", "held out"), rows)


def plan_table() -> str:
    """The sizes of the demo."""
    plan, training = demo_plan(), demo_plan().training
    assert training.warm_start is not None
    rows = [
        ("tasks to train on", f"{plan.training_tasks:,}"),
        ("held-out tasks", ", ".join(f"{count} {split}" for split, count in plan.held_out.items())),
        ("hard questions asked under two wishes", str(plan.wish_tasks)),
        ("warm start: tasks that the explorer tries", str(training.warm_start.tasks)),
        ("GRPO steps", str(training.steps)),
        ("tasks a step × rollouts of a task", f"{training.tasks_per_step} × {training.group_size}"),
        ("layers that are trained", "all" if training.train_layers is None else f"the top {training.train_layers}"),
    ]
    return table(("what", "size"), rows)


def _amount(dollars: Decimal) -> str:
    return f"{dollars.normalize():f}"


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# The layers


def layers() -> str:
    """Who may import whom, from the contract that the linter checks."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    names = project["tool"]["importlinter"]["contracts"][0]["layers"]
    lines = (" │ ".join(filter(_exists, re.split(r"[()| ]+", layer))) for layer in names)
    return "```text\n" + "".join(f"{line}\n" for line in lines if line) + "```\n"


def _exists(module: str) -> bool:
    """Whether a layer's module is there: the contract names some that are yet to come."""
    home = REPO / "src" / "toolorchestra" / module
    return bool(module) and (home.is_dir() or home.with_suffix(".py").is_file())


# The demo's result


def demo_result(folder: Path) -> str:
    """The systems on the held-out tasks, and what the run had to show."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    systems = [
        (
            system["name"],
            _estimate(system["accuracy"], "{:.1%}".format),
            _estimate(system["cost_usd"], lambda usd: f"${usd * 1000:.3g}"),
            _estimate(system["cost_ratio"], "{:.0%}".format),
            _estimate(system["latency_s"], "{:.1f} s".format),
            _estimate(system["reward"], "{:.2f}".format),
        )
        for name in SHOWN
        for system in summary["splits"]["test"]
        if system["name"] == name
    ]
    met = {True: "yes", False: "no", None: "not measured"}
    claims = [(one["text"], one["measured"], one["target"], met[one["met"]]) for one in summary["claims"]]
    heads = ("system", "right answers", "1,000 tasks", "cost / always dearest", "seconds", "reward")
    asked = ("what the run had to show", "measured", "asked for", "met")
    return table(heads, systems) + "\n" + table(asked, claims)


def _estimate(value: Mapping[str, Any] | None, form: Callable[[float], str]) -> str:
    if value is None:
        return "–"
    ends = "" if value["low"] in (None, value["high"]) else f" ({form(value['low'])} to {form(value['high'])})"
    return f"{form(value['value'])}{ends}"


@cache
def made() -> dict[str, str]:
    """Every table that depends on the code alone, by name."""
    return {
        **settings_tables(),
        **command_tables(),
        "roles": role_table(),
        "names": name_table(),
        "wishes": wish_table(),
        "kinds": kind_table(),
        "demo plan": plan_table(),
        "layers": layers(),
    }


def filled(text: str, tables: Mapping[str, str]) -> str:
    """A page with its tables replaced; a name that is not among them keeps what it has."""

    def replace(match: re.Match[str]) -> str:
        content = tables.get(match["name"])
        return match[0] if content is None else f"{match[1]}\n{content}\n"

    return REGION.sub(replace, text)


def names_in(text: str) -> Iterator[str]:
    """The names of a page's tables."""
    return (match["name"] for match in REGION.finditer(text))


def main() -> None:
    """Fill the tables of every page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, help="the folder of a demo run, for README.md")
    folder = parser.parse_args().demo
    tables = made() | ({} if folder is None else {DEMO: demo_result(folder)})
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = filled(text, tables)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(page.relative_to(REPO))


if __name__ == "__main__":
    main()
