"""``toolorchestra run``: answer one question, turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolorchestra.cli.options import Json, Seed


def run(
    question: Annotated[str, typer.Argument(help="The question, in quotes.", show_default=False)],
    config: Annotated[Path, typer.Option(help="The settings file.")] = Path("orchestra.yaml"),
    preference: Annotated[
        str | None, typer.Option(help="A wish in words, instead of the settings'.", show_default=False)
    ] = None,
    json_output: Json = False,
    seed: Seed = 0,
) -> None:
    """Answer a question: print each turn as it happens, then the answer with its dollars and seconds.

    **Examples**

    `toolorchestra run "What is 17 * 23?" --config orchestra.yaml`

    `toolorchestra run "Who built the lighthouse?" --preference "Use the search; keep it cheap." --json`
    """
    import asyncio
    import json

    from toolorchestra.assembly import answer_question
    from toolorchestra.cli.tables import print_answer, print_turn

    told = asyncio.run(
        answer_question(config, question, words=preference, seed=seed, on_turn=None if json_output else print_turn)
    )
    if json_output:
        typer.echo(json.dumps(told.to_json(), indent=2, ensure_ascii=False))
    else:
        print_answer(told)
    if told.trajectory.status == "missing":
        typer.echo(f"error: the episode was lost: {told.trajectory.error}", err=True)
        raise typer.Exit(1)
