"""The sections of the tools, told apart by ``kind``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from toolorchestra.config._section import Name, Section, did_you_mean, fault, input_folder
from toolorchestra.config.prices import PriceRow

_KINDS = ("model", "code", "search")
_LATER = ("tavily", "faiss", "mcp")


class ToolSection(Section):
    """What every tool has."""

    description: str | None = None
    """What the orchestrator is told about it, price and seconds aside; by default written from its settings."""


class ModelToolSettings(ToolSection):
    """A language model that can be asked."""

    kind: Literal["model"]
    """Which tool."""
    model: Name
    """The key of a model under ``models``."""


class CodeToolSettings(ToolSection):
    """The code interpreter, in a sandbox."""

    kind: Literal["code"]
    """Which tool."""
    seconds: float = Field(default=30.0, gt=0, le=3600)
    """Seconds until a run is stopped."""
    memory_mb: int = Field(default=512, ge=64)
    """Memory of a run, in MiB."""
    price: PriceRow | None = None
    """What a call or a second costs; by default it is free, since it runs here."""


class SearchToolSettings(ToolSection):
    """Search by words (BM25) over a folder of text."""

    kind: Literal["search"]
    """Which tool."""
    folder: Annotated[Path, input_folder("put the text files to search there")]
    """The folder of text files."""
    results: int = Field(default=5, ge=1, le=20)
    """Passages that a search returns."""
    price: PriceRow | None = None
    """What a call or a second costs; by default it is free, since it runs here."""


def _check_kind(value: Any) -> Any:
    if not isinstance(value, dict) or value.get("kind") in _KINDS:
        return value
    if "kind" not in value:
        raise fault(f"is missing; one of {', '.join(_KINDS)}", at=["kind"])
    kind = str(value["kind"])[:60]
    if kind in _LATER:
        raise fault(f"{kind!r} comes with a later release; for now use one of {', '.join(_KINDS)}", at=["kind"])
    raise fault(f"no tool of the kind {kind!r}; {did_you_mean(kind, _KINDS)}", at=["kind"])


ToolSettings = Annotated[
    Annotated[ModelToolSettings | CodeToolSettings | SearchToolSettings, Field(discriminator="kind")],
    BeforeValidator(_check_kind),
]
"""One tool, told apart by ``kind``."""
