"""What the loop costs, next to other agent loops, against a local mock chat server. Needs no network.

    pip install -e ".[bench]"
    python benchmarks/loop.py                  # all three parts, about four minutes
    python benchmarks/loop.py --json out.json

1. CPU per turn at one episode at a time (8 tool turns and an answer), of the client process only.
2. Wall time over the ideal: 64 episodes at once, tools with heavy-tailed seconds. The ideal is the slowest episode's
   own tool seconds: nothing can be faster.
3. Growth: CPU per episode of 1,024 episodes at once, over that of 64. It is not 1: Python's garbage collector looks
   at what is alive now and then, and 1,024 trajectories are.

Every figure is the median of five runs, each in a process of its own, contenders taking turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from contenders import CONTENDERS, Measured, measure, run_ours, version_of
from mock_server import TURNS
from rich.console import Console
from rich.table import Table

RUNS = 5
EPISODES = 30
CROWD = 64
CROWDS = (CROWD, 256, 1024)
TAIL, SCALE_S, CAP_S = 1.2, 0.05, 1.5
TARGETS = {"cpu_ms_per_turn": 1.0, "times_better": 3.0, "wall_over_ideal": 1.1, "growth": 1.5}


def tool_seconds(seed: int) -> list[list[float]]:
    """Heavy-tailed (Pareto) seconds of every tool call, capped."""
    draw = random.Random(seed)
    return [[min(CAP_S, SCALE_S * draw.paretovariate(TAIL)) for _ in range(TURNS)] for _ in range(CROWD)]


@contextmanager
def mock_server() -> Iterator[str]:
    """The mock chat server in a process of its own; its base URL."""
    command = [sys.executable, str(Path(__file__).with_name("mock_server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            base_url = server.stdout.readline().strip()
            if not base_url:
                raise SystemExit("the mock server did not start")
            yield base_url
        finally:
            server.stdin.close()


def in_own_process(part: str, base_url: str, seed: int = 0) -> Measured:
    """Run one part in a fresh process."""
    command = [sys.executable, __file__, "--part", part, "--url", base_url, "--seed", str(seed)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Measured(**json.loads(output.splitlines()[-1]))


async def run_part(part: str, base_url: str, seed: int) -> Measured:
    """What :func:`in_own_process` runs."""
    if part in CONTENDERS:
        return await measure(part, base_url, EPISODES)
    await run_ours(base_url, 3)
    if part == "tail":
        return await run_ours(base_url, CROWD, concurrency=CROWD, sleeps=tool_seconds(seed))
    count = int(part)
    return await run_ours(base_url, count, concurrency=count)


def compare_cpu(base_url: str, console: Console) -> dict[str, Any]:
    """Part 1."""
    present = [name for name in CONTENDERS if version_of(name)]
    absent = [name for name in CONTENDERS if name not in present]
    if absent:
        console.print(f'not installed, left out: {", ".join(absent)} (pip install -e ".[bench]")', style="yellow")
    seen: dict[str, list[Measured]] = {name: [] for name in present}
    for _ in range(RUNS):
        for name in present:
            seen[name].append(in_own_process(name, base_url))
    rows: dict[str, dict[str, Any]] = {
        name: {
            "version": version_of(name),
            "cpu_ms_per_turn": median(1000 * run.cpu_s / run.turns for run in runs),
            "wall_ms_per_turn": median(1000 * run.wall_s / run.turns for run in runs),
            "cpu_ms_per_turn_of_each_run": [1000 * run.cpu_s / run.turns for run in runs],
        }
        for name, runs in seen.items()
    }
    ours = rows["toolorchestra"]["cpu_ms_per_turn"]
    table = Table(title=f"1. CPU per turn, one episode at a time ({TURNS} tool turns and an answer)")
    for heading in ("loop", "version", "CPU ms/turn", "least-most", "wall ms/turn", "CPU over ours"):
        table.add_column(heading, justify="left" if heading in ("loop", "version") else "right")
    for name, row in rows.items():
        each = row["cpu_ms_per_turn_of_each_run"]
        table.add_row(
            name,
            row["version"],
            f"{row['cpu_ms_per_turn']:.2f}",
            f"{min(each):.2f}-{max(each):.2f}",
            f"{row['wall_ms_per_turn']:.2f}",
            f"{row['cpu_ms_per_turn'] / ours:.1f}",
        )
    console.print(table)
    peers = [
        row["cpu_ms_per_turn"] / ours for name, row in rows.items() if name not in ("toolorchestra", "bare aiohttp")
    ]
    return {"loops": rows, "times_better": min(peers, default=None)}


def compare_wall(base_url: str, console: Console) -> dict[str, Any]:
    """Part 2: five draws of the tool seconds."""
    ratios, barriers = [], []
    for seed in range(RUNS):
        sleeps = tool_seconds(seed)
        ideal_s = max(map(sum, sleeps))
        ratios.append(in_own_process("tail", base_url, seed).wall_s / ideal_s)
        barriers.append(sum(max(row[turn] for row in sleeps) for turn in range(TURNS)) / ideal_s)
    table = Table(title=f"2. Wall time over the ideal, {CROWD} episodes x {TURNS} turns, heavy-tailed tool seconds")
    for heading in ("median", "least", "most", "a barrier per turn would give at least"):
        table.add_column(heading, justify="right")
    row = (median(ratios), min(ratios), max(ratios), median(barriers))
    table.add_row(*(f"{value:.3f}" for value in row))
    console.print(table)
    return {"wall_over_ideal": median(ratios), "of_each_run": ratios, "with_a_barrier_per_turn": median(barriers)}


def compare_growth(base_url: str, console: Console) -> dict[str, Any]:
    """Part 3."""
    seen: dict[int, list[float]] = {count: [] for count in CROWDS}
    for _ in range(RUNS):
        for count in CROWDS:
            seen[count].append(1000 * in_own_process(str(count), base_url).cpu_s / count)
    cpu_ms = {count: median(each) for count, each in seen.items()}
    table = Table(title="3. CPU per episode as the number of episodes at once grows")
    for heading in ("episodes", "CPU ms/episode", "CPU ms/turn"):
        table.add_column(heading, justify="right")
    for count, each_ms in cpu_ms.items():
        table.add_row(f"{count:,}", f"{each_ms:.2f}", f"{each_ms / (TURNS + 1):.2f}")
    console.print(table)
    return {"cpu_ms_per_episode": cpu_ms, "growth": cpu_ms[CROWDS[-1]] / cpu_ms[CROWDS[0]]}


def verdicts(results: dict[str, Any], console: Console) -> bool:
    """Each target and whether it was met."""
    figures = {
        "cpu_ms_per_turn": results["cpu"]["loops"]["toolorchestra"]["cpu_ms_per_turn"],
        "times_better": results["cpu"]["times_better"],
        "wall_over_ideal": results["wall"]["wall_over_ideal"],
        "growth": results["growth"]["growth"],
    }
    met = []
    for name, figure in figures.items():
        if figure is None:
            console.print(f"{name}: not measured")
            continue
        at_least = name == "times_better"
        met.append(figure >= TARGETS[name] if at_least else figure <= TARGETS[name])
        sign = "≥" if at_least else "≤"
        console.print(f"{name}: {figure:.2f}, target {sign} {TARGETS[name]}: {'met' if met[-1] else 'MISSED'}")
    return all(met)


def main() -> int:
    """Run everything; 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(asdict(asyncio.run(run_part(options.part, options.url, options.seed)))))
        return 0
    console = Console(width=None if sys.stdout.isatty() else 110)
    machine = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "aiohttp": metadata.version("aiohttp"),
    }
    console.print(f"{machine}; medians of {RUNS} runs")
    with mock_server() as base_url:
        results = {
            "machine": machine,
            "cpu": compare_cpu(base_url, console),
            "wall": compare_wall(base_url, console),
            "growth": compare_growth(base_url, console),
        }
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0 if verdicts(results, console) else 1


if __name__ == "__main__":
    sys.exit(main())
