"""``toolorchestra evaluate``: run the orchestrator and baselines over a task file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolorchestra.cli.options import Config, Seed


def evaluate(
    config: Config,
    tasks: Annotated[
        Path | None, typer.Argument(help="The task file; by default the settings' tasks.test.", show_default=False)
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Rollouts of every task.")] = 1,
    baselines: Annotated[
        str, typer.Option(help="all, none, or names with commas: cheapest-first, agreement, random, always:TOOL.")
    ] = "all",
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default runs/CONFIG-TASKS.")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Episodes at once; by default the settings'.")] = None,
    seed: Seed = 0,
) -> None:
    """Compare the orchestrator with baselines on a task file: accuracy, dollars and seconds with 95% intervals.

    Everything is checked before the first call. Stopped at any moment, the same command goes on.

    **Examples**

    `toolorchestra evaluate orchestra.yaml tasks.jsonl`

    `toolorchestra evaluate orchestra.yaml tasks.jsonl --samples 4 --baselines cheapest-first,random --out runs/mine`
    """
    import asyncio

    from toolorchestra.assembly import evaluate_config, load_job
    from toolorchestra.cli.progress import ProgressDisplay
    from toolorchestra.cli.tables import print_results
    from toolorchestra.evaluation import read_results, write_results

    job = load_job(config, tasks, samples=samples, baselines=baselines, concurrency=concurrency, seed=seed)
    folder = out or Path("runs") / job.name
    with ProgressDisplay() as display:
        asyncio.run(
            evaluate_config(
                job,
                folder,
                lambda at: display.update(at.system, at.done, at.total, f"{at.missing} missing" if at.missing else ""),
            )
        )
    results = read_results(folder, seed=seed)
    path = write_results(folder, results, title=f"{job.name}: evaluation", command=job.command(folder))
    print_results(results)
    typer.echo(f"report: {path}")
    if results.missing:
        typer.echo(f"{results.missing} episodes are missing; the same command tries them again", err=True)
        raise typer.Exit(1)
