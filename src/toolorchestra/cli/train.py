"""``toolorchestra train``: train the orchestrator of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolorchestra.cli.options import Config


def train(
    config: Config,
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default runs/CONFIG-train.")] = None,
) -> None:
    """Train the orchestrator on the settings' tasks.train with GRPO, after a warm start where one is asked for.

    Everything is checked before the first step. Stopped at any moment, the same command goes on.

    **Examples**

    `toolorchestra train orchestra.yaml`

    `toolorchestra train orchestra.yaml --out runs/mine`
    """
    from toolorchestra.assembly import train_config
    from toolorchestra.cli.progress import ProgressDisplay, metrics_note
    from toolorchestra.evaluation import read_results, write_results

    folder = out or Path("runs") / f"{config.stem}-train"
    with ProgressDisplay() as display:
        model = train_config(
            config, folder, lambda at: display.update(at.phase, at.done, at.total, metrics_note(at.metrics))
        )
    results = read_results(folder)
    path = write_results(folder, results, title=f"{config.stem}: training", command=f"toolorchestra train {config}")
    typer.echo(f"report: {path}")
    typer.echo(f"model:  {model}")
    typer.echo(f"To use it, set orchestrator.model to that folder; then: toolorchestra doctor {config}")
