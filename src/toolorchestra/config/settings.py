"""The whole file: ``orchestra.yaml`` as typed settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from toolorchestra.config._messages import explain
from toolorchestra.config._section import Name, Section, did_you_mean, fault, input_file, looks_secret
from toolorchestra.config._yaml import Document, Location, read_yaml
from toolorchestra.config.models import ChatModelSettings, ModelSettings, OrchestratorSettings
from toolorchestra.config.prices import Dollars, PricesSettings
from toolorchestra.config.tools import ModelToolSettings, ToolSettings
from toolorchestra.config.training import TrainingSettings
from toolorchestra.errors import UserError

Weight = Annotated[float, Field(ge=0, le=1)]

_TASKS = input_file("create it as JSON Lines: one object with id, question and answer a line")
_BEGINNING = (
    "It is YAML and begins with an orchestrator section: `orchestrator: {model: …, base_url: …}`; "
    "examples/first-steps/orchestra.yaml is a whole one"
)
_RESERVED = "orchestrator"
"""The name under which the orchestrator's own charges stand in every record."""


class PreferenceSettings(Section):
    """What the user wants besides the right answer. In the file, a text alone stands for ``{text: …}``."""

    text: str = ""
    """The wish in words."""
    outcome: Weight = 1.0
    """Weight of a right answer, from 0 to 1."""
    compute: Weight = 0.0
    """Weight of few dollars, from 0 to 1."""
    latency: Weight = 0.0
    """Weight of few seconds, from 0 to 1."""
    tools: dict[str, Weight] = Field(default_factory=dict)
    """Weight of calling each tool, from 0 to 1."""


class LimitsSettings(Section):
    """What ends an episode."""

    turns: int = Field(default=50, ge=1)
    """Turns."""
    tokens: int | None = Field(default=None, ge=1)
    """Tokens of all charges, read and written: the orchestrator's and those of every model it calls."""
    usd: Dollars | None = None
    """Dollars; ``null`` for no limit."""
    seconds: float | None = Field(default=None, gt=0)
    """Seconds; ``null`` for no limit."""
    forced_answer: bool = False
    """Ask for a last answer without tools when a limit is hit (it is marked in the record)."""


class TasksSettings(Section):
    """Task files."""

    train: Annotated[Path, _TASKS] | None = None
    """Tasks to train on."""
    test: Annotated[Path, _TASKS] | None = None
    """Tasks to evaluate on."""


class JudgeSettings(Section):
    """Who says whether an answer is right."""

    kind: Literal["task", "exact", "number", "math", "model"] = "task"
    """``task``: each task names its own verifier; else this one for all."""
    model: Name | None = None
    """The key of a model under ``models`` that judges where the verifier is ``model``."""


def _text_alone(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else value


class Settings(Section):
    """Everything that ``orchestra.yaml`` says."""

    orchestrator: OrchestratorSettings
    """Who orchestrates."""
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    """Models that tools, judges and baselines can call, by name."""
    tools: dict[str, ToolSettings] = Field(default_factory=dict)
    """Tools on offer, by name."""
    prices: PricesSettings = PricesSettings()
    """Where prices come from."""
    preference: Annotated[PreferenceSettings, BeforeValidator(_text_alone)] = PreferenceSettings()
    """What the user wants besides the right answer."""
    limits: LimitsSettings = LimitsSettings()
    """What ends an episode."""
    tasks: TasksSettings = TasksSettings()
    """Task files."""
    training: TrainingSettings = TrainingSettings()
    """How the orchestrator is trained."""
    judge: JudgeSettings = JudgeSettings()
    """Who says whether an answer is right."""
    concurrency: int = Field(default=32, ge=1)
    """Most episodes at once."""

    @field_validator("models", mode="after")
    @classmethod
    def _name_models(cls, models: dict[str, ModelSettings]) -> dict[str, ModelSettings]:
        return {name: _named(name, model) for name, model in models.items()}

    @model_validator(mode="after")
    def _check_references(self) -> Settings:
        for problem in self._problems():
            raise problem
        return self

    def _problems(self) -> Iterator[PydanticCustomError]:
        for name in self.tools:
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
                yield fault("a tool's name has 1 to 64 letters, digits, _ and - only; rename it", at=["tools", name])
        for section, names in (("models", self.models), ("tools", self.tools)):
            if _RESERVED in names:
                yield fault(f"{_RESERVED!r} is the orchestrator's own name; rename it", at=[section, _RESERVED])
        for name, tool in self.tools.items():
            if isinstance(tool, ModelToolSettings) and tool.model not in self.models:
                yield _no_model(tool.model, self.models, "tools", name, "model")
        if self.judge.model is not None and self.judge.model not in self.models:
            yield _no_model(self.judge.model, self.models, "judge", "model")
        if self.judge.kind == "model" and self.judge.model is None:
            yield fault("is missing; name a model under models that judges", at=["judge", "model"])
        for name in self.preference.tools:
            if name not in self.tools:
                meant = did_you_mean(name, self.tools)
                yield fault(f"no tool {name!r} under tools; {meant}", at=["preference", "tools", name])

    def dump(self) -> dict[str, Any]:
        """A plain object for ``run.json``: all settings, defaults included. ``Settings.model_validate`` reads it back.

        It holds names of environment variables, never their values.
        """
        return self.model_dump(mode="json")


def load_settings(path: Path, *, check_files: bool = True) -> Settings:
    """Read and check a settings file whole, before any work starts.

    Args:
        path: The YAML file. Relative paths in it start from its folder.
        check_files: Whether the files and folders that it names must exist.

    Raises:
        UserError: The file cannot be read, or a setting is wrong. A line for each problem names the file, the setting's
            path, what is wrong with it and the fix.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such settings file; correct the path, or create it. {_BEGINNING}")
    document = read_yaml(path)
    if document.values is None:
        raise UserError(f"{path}: the file is empty. {_BEGINNING}")
    _refuse_secrets(document, document.values, ())
    context = {"folder": path.resolve().parent, "check_files": check_files}
    try:
        return Settings.model_validate(document.values, context=context)
    except ValidationError as error:
        raise explain(error, document, tagged=("models", "tools")) from None


def _refuse_secrets(document: Document, value: Any, location: Location) -> None:
    """Refuse keys wherever they stand, without repeating them."""
    if isinstance(value, str) and looks_secret(value):
        where = ".".join(str(part) for part in location)
        raise UserError(
            f"{document.name}: {where} (line {document.line(location)}): looks like a secret key; take it out of the "
            "file (and revoke it if others saw it), put it into an environment variable and name that: "
            "api_key_env: NAME_OF_THE_VARIABLE"
        )
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        _refuse_secrets(document, item, (*location, key))


def _named(name: str, model: ModelSettings) -> ModelSettings:
    if isinstance(model, ChatModelSettings) and not model.model:
        return model.model_copy(update={"model": name})
    return model


def _no_model(name: str, models: dict[str, ModelSettings], *at: str) -> PydanticCustomError:
    return fault(f"no model {name!r} under models; {did_you_mean(name, models)}", at=at)
