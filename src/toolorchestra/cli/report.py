"""``toolorchestra report``: write the report of a run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="The run's folder, such as runs/demo.", show_default=False)],
) -> None:
    """Sum up what a run's folder holds: write its summary.json and report.html, and print the table.

    **Examples**

    `toolorchestra report runs/orchestra-tasks`
    """
    from toolorchestra.cli.tables import print_claims, print_results
    from toolorchestra.evaluation import read_results, write_results

    if is_demo(run):
        from toolorchestra.demo.findings import write_findings

        print_claims(write_findings(run))
        typer.echo(f"report: {run / 'report.html'}")
        return
    results = read_results(run)
    path = write_results(run, results, title=f"Run {run.resolve().name}", command=f"toolorchestra report {run}")
    print_results(results)
    typer.echo(f"report: {path}")


def is_demo(run: Path) -> bool:
    """Whether a run is the demo's, which has a report of its own: only that knows the market's roles.

    Raises:
        UserError: There is no run.
    """
    from toolorchestra.runs import RunFolder

    return "held_out" in RunFolder(run).record().get("settings", {})
