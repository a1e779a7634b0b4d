"""``toolorchestra demo``: from nothing to a trained orchestrator and its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolorchestra.cli.options import Seed


def demo(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/demo"),
    quick: Annotated[bool, typer.Option(help="A few steps only: to see it work, not to see it good.")] = False,
    seed: Seed = 0,
) -> None:
    """Train a small orchestrator in the embedded market, compare it with baselines, and write a report.

    It needs no network and no key: the models of the market are simulated. Stopped at any moment, the same command
    goes on.

    **Examples**

    `toolorchestra demo`

    `toolorchestra demo --quick --out runs/quick --seed 1`
    """
    from toolorchestra.cli.progress import ProgressDisplay, metrics_note
    from toolorchestra.cli.tables import print_claims
    from toolorchestra.demo import run_demo

    with ProgressDisplay() as display:
        result = run_demo(
            out,
            quick=quick,
            seed=seed,
            on_progress=lambda at: display.update(at.stage, at.done, at.total, metrics_note(at.metrics)),
        )
    print_claims(result.claims)
    typer.echo(f"model:  {result.model}")
    typer.echo(f"report: {result.report}")
