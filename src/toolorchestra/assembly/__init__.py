"""Settings → live objects: models, tools, judges, environments and the orchestrator, checked before any work starts."""

from toolorchestra.assembly.build import Assembly, build
from toolorchestra.assembly.checks import Check, examine, refuse
from toolorchestra.assembly.models import ModelOffer
from toolorchestra.assembly.prices import Prices, find_prices
from toolorchestra.assembly.rules import RULES
from toolorchestra.assembly.tools import ToolOffer
from toolorchestra.assembly.training import check_trainable, training_job
from toolorchestra.assembly.watching import Turn, WatchedEnvironment
from toolorchestra.assembly.work import (
    Answered,
    EvaluationJob,
    answer_question,
    evaluate_config,
    load_job,
    train_config,
)

__all__ = [
    "RULES",
    "Answered",
    "Assembly",
    "Check",
    "EvaluationJob",
    "ModelOffer",
    "Prices",
    "ToolOffer",
    "Turn",
    "WatchedEnvironment",
    "answer_question",
    "build",
    "check_trainable",
    "evaluate_config",
    "examine",
    "find_prices",
    "load_job",
    "refuse",
    "train_config",
    "training_job",
]
