"""How the program ends: exit codes, and messages without a traceback."""

from __future__ import annotations

import contextlib
from typing import Any

import typer
from typer.core import TyperGroup

from toolorchestra.cli.surroundings import DEBUG, debugging, prepare
from toolorchestra.errors import ToolOrchestraError, UserError

UNEXPECTED = 1
INTERRUPTED = 130

_RESUMABLE = ("demo", "train", "evaluate")


class Commands(TyperGroup):
    """The commands; whatever one of them raises becomes a message on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        prepare()
        try:
            return super().invoke(ctx)
        except UserError as error:
            _tell(f"error: {error}", error)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            again = ctx.invoked_subcommand in _RESUMABLE
            _say("stopped: what is finished is kept; the same command goes on from there" if again else "stopped")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            # Typer's own (a wrong option, the end of a pipe, an exit) are no surprise.
            if type(error).__module__.startswith("typer") or isinstance(error, BrokenPipeError):
                raise
            _tell(_unexpected(error), error)
            raise typer.Exit(UNEXPECTED) from None


def _unexpected(error: Exception) -> str:
    from toolorchestra.redaction import describe_error

    kind = "error" if isinstance(error, ToolOrchestraError) else "unexpected error"
    advice = "" if debugging() else f"\nSet {DEBUG}=1 and run the command again to see where it comes from."
    return f"{kind}: {describe_error(error)}{advice}"


def _tell(text: str, error: Exception) -> None:
    """The message, after the traceback where that is wanted."""
    if debugging():
        from toolorchestra.redaction import describe_traceback

        _say(describe_traceback(error))
    _say(text)


def _say(text: str) -> None:
    # Whoever reads stderr may be gone; the exit code still tells.
    with contextlib.suppress(OSError):
        typer.echo(text, err=True)
