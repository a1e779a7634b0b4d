"""The arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path, typer.Argument(help="The settings file, such as orchestra.yaml.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Seed = Annotated[int, typer.Option(min=0, help="Of everything that is drawn by chance.")]
