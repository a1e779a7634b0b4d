"""One YAML file → typed settings; a wrong key or value names its path and what was meant."""

from __future__ import annotations

from toolorchestra.config._messages import explain
from toolorchestra.config._section import Section, did_you_mean, read_secret
from toolorchestra.config._yaml import Document, parse_yaml, read_yaml
from toolorchestra.config.models import (
    ChatModelSettings,
    Endpoint,
    ModelSettings,
    OrchestratorSettings,
    RecordedModelSettings,
    SimulatedModelSettings,
)
from toolorchestra.config.prices import PriceRow, PricesSettings, TierRow
from toolorchestra.config.settings import (
    JudgeSettings,
    LimitsSettings,
    PreferenceSettings,
    Settings,
    TasksSettings,
    load_settings,
)
from toolorchestra.config.tools import CodeToolSettings, ModelToolSettings, SearchToolSettings, ToolSettings
from toolorchestra.config.training import TrainingSettings, WarmStartSettings

__all__ = [
    "ChatModelSettings",
    "CodeToolSettings",
    "Document",
    "Endpoint",
    "JudgeSettings",
    "LimitsSettings",
    "ModelSettings",
    "ModelToolSettings",
    "OrchestratorSettings",
    "PreferenceSettings",
    "PriceRow",
    "PricesSettings",
    "RecordedModelSettings",
    "SearchToolSettings",
    "Section",
    "Settings",
    "SimulatedModelSettings",
    "TasksSettings",
    "TierRow",
    "ToolSettings",
    "TrainingSettings",
    "WarmStartSettings",
    "did_you_mean",
    "explain",
    "load_settings",
    "parse_yaml",
    "read_secret",
    "read_yaml",
]
