"""A configuration's training, as the trainer takes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolorchestra.assembly.build import Assembly
from toolorchestra.assembly.orchestrator import check_model_folder, model_folder
from toolorchestra.assembly.rules import is_rule
from toolorchestra.config import OrchestratorSettings, Settings
from toolorchestra.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolorchestra.tasks import Task
    from toolorchestra.training import TrainingJob


def check_trainable(settings: Settings) -> None:
    """Check that there is something to train, and something to train on.

    Raises:
        UserError: The orchestrator is no model in a folder, or no tasks to train on are named.
    """
    _check_model(settings.orchestrator)
    if settings.tasks.train is None:
        raise UserError("tasks.train is missing: name the file of tasks to train on")
    if settings.training.warm_start is not None and not settings.orchestrator.constrained:
        raise UserError(
            "training.warm_start teaches calls under the grammar of the tools: set orchestrator.constrained: true, or "
            "leave warm_start out"
        )
    if not settings.tools:
        raise UserError("tools is missing: there is nothing to orchestrate; add a tool")


def training_job(assembly: Assembly, tasks: Sequence[Task], folder: Path) -> TrainingJob:
    """The training that a configuration describes. Imports torch.

    Args:
        assembly: Made of the configuration.
        tasks: What to train on, prepared.
        folder: Where everything is written; an earlier training in it goes on.

    Raises:
        UserError: The orchestrator is no model in a folder.
    """
    settings = assembly.settings
    check_trainable(settings)
    from toolorchestra.training import TrainingJob

    orchestrator = settings.orchestrator
    return TrainingJob(
        folder=folder,
        base=model_folder(orchestrator),
        tasks=tasks,
        make_environment=assembly.make_environment,
        settings=settings.training,
        limits=assembly.limits,
        decoding="calls" if orchestrator.constrained else "free",
        price=assembly.prices.orchestrator,
        concurrency=settings.concurrency,
    )


def _check_model(settings: OrchestratorSettings) -> None:
    if settings.base_url is not None or is_rule(settings):
        what = "a fixed rule" if is_rule(settings) else "a model behind an endpoint"
        raise UserError(
            f"orchestrator.model: {what} cannot be trained here; name a model folder, or the bundled one: smollm2"
        )
    check_model_folder(settings)
