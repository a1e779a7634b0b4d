"""The program: its commands, and how it ends."""

from __future__ import annotations

from typing import Annotated

import typer

from toolorchestra import __version__
from toolorchestra.cli.demo import demo
from toolorchestra.cli.doctor import doctor
from toolorchestra.cli.evaluate import evaluate
from toolorchestra.cli.failures import Commands
from toolorchestra.cli.report import report
from toolorchestra.cli.run import run
from toolorchestra.cli.train import train

app = typer.Typer(
    name="toolorchestra",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, train, evaluate, run, report, doctor):
    app.command()(command)


def main() -> None:
    """Run the program; the entry point of the script ``toolorchestra``."""
    app(prog_name="toolorchestra")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"toolorchestra {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Train, evaluate and run a small language model that orchestrates tools and other models.

    Exit codes: 0 done; 1 something unexpected; 2 you must set something right; 3 something does not answer;
    130 stopped with Ctrl-C.
    """
    del version
