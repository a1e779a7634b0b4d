"""The sections of the language models: who orchestrates, and whom it can call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic import ValidationInfo as Info

from toolorchestra.config._section import (
    EnvName,
    Name,
    Section,
    Url,
    did_you_mean,
    fault,
    input_file,
    must_exist,
    resolve,
)
from toolorchestra.config.prices import PriceRow

_HOSTS = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "anthropic": ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
}
"""Where providers have their OpenAI-compatible endpoint: for the hint in the message, nothing else."""


class Endpoint(Section):
    """How a chat endpoint is called."""

    api_key_env: EnvName | None = None
    """The NAME of the environment variable that holds the key; none for a server without keys."""
    price: PriceRow | None = None
    """What it costs; by default the price table is asked."""
    price_name: Name | None = None
    """The name to look up in the price table, where it is not the model's (``openai:gpt-5`` names the provider too)."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Of the sampling; by default the server's (0, the likeliest, for a local model; training has its own)."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of one reply; by default the server's."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Seconds until an attempt is given up."""
    retries: int = Field(default=3, ge=0, le=20)
    """Attempts after the first that failed for reasons that may pass."""
    concurrency: int = Field(default=32, ge=1)
    """Most requests at once."""


class OrchestratorSettings(Endpoint):
    """Who orchestrates: a model behind an endpoint, or one in a folder that can be trained."""

    base_url: Url | None = None
    """The OpenAI-compatible endpoint; leave it out for a model in a folder."""
    model: Name
    """With ``base_url``, the server's name of the model. Without, a folder with a model (relative to this file), the
    name of a bundled one (``smollm2``), or a fixed rule (``rule:cheapest-first``, ``rule:agreement``,
    ``rule:random``, ``rule:always:<tool>``)."""
    protocol: Literal["conversation", "nemotron"] = "conversation"
    """How the prompt is built: ``conversation`` is the paper's."""
    constrained: bool = False
    """Decode tool calls under the grammar of the tools on offer, so that none is malformed (a local model only)."""

    @field_validator("model", mode="after")
    @classmethod
    def _find(cls, model: str, info: Info) -> str:
        if info.data.get("base_url") is not None:
            return model
        path = resolve(Path(model), info)
        loading = (info.context or {}).get("folder") is not None
        found = loading and path.is_dir()
        # `runs/model` could be a published owner/name; with a folder `runs` next to the file, it is not.
        if not found and not _is_path(model) and not (loading and "/" in model and path.parent.is_dir()):
            return model
        if must_exist(info) and not found:
            raise fault(f"no such model folder: {path}; train one (toolorchestra train) or correct the path")
        return str(path)

    @model_validator(mode="after")
    def _check_built(self) -> OrchestratorSettings:
        if self.protocol == "nemotron":
            raise fault("'nemotron' comes with a later release; use conversation for now", at=["protocol"])
        if self.constrained and self.base_url is not None:
            raise fault(
                "works with a model in a folder only; remove base_url, or set constrained: false", at=["constrained"]
            )
        return self


def _is_path(model: str) -> bool:
    """Whether a name can only be meant as a folder: published models are ``name`` or ``owner/name``."""
    return model.startswith((".", "/", "~")) or model.endswith("/") or model.count("/") > 1


class ChatModelSettings(Endpoint):
    """A model behind an OpenAI-compatible endpoint."""

    provider: Literal["openai-compatible"] = "openai-compatible"
    """How it is called."""
    base_url: Url
    """The endpoint, such as ``http://localhost:8000/v1``."""
    model: str = ""
    """The server's name of the model; by default the key of this section."""
    description: str = ""
    """What it is good at, for the orchestrator."""
    seconds: float | None = Field(default=None, gt=0)
    """Typical seconds of a reply, for the orchestrator; ``null`` leaves them out."""
    output_tokens: int = Field(default=500, ge=1)
    """Typical generated tokens of a reply, for the price of a call that the orchestrator is told."""


class SimulatedModelSettings(Section):
    """A model that is not there: it is right by chance, at a stated skill, price and speed. For tests and the demo."""

    provider: Literal["simulated"]
    """How it is called."""
    price: PriceRow
    """What it costs."""
    skills: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)
    """The chance of a right answer, from 0 to 1, by kind of task; a kind that is not named is not known at all."""
    seconds: float = Field(default=1.0, ge=0)
    """Seconds of a reply, on the virtual clock."""
    output_tokens: int = Field(default=100, ge=0)
    """Generated tokens of a reply."""
    seed: int = Field(default=0, ge=0)
    """Of its chances."""
    description: str = ""
    """What it is good at, for the orchestrator."""


class RecordedModelSettings(Section):
    """A model whose answers, tokens and seconds are read from a table."""

    provider: Literal["recorded"]
    """How it is called."""
    path: Annotated[Path, input_file("record answers first, one JSON object a line")]
    """The table: JSON Lines."""
    price: PriceRow | None = None
    """What its tokens cost; by default the price table is asked."""
    price_name: Name | None = None
    """The name to look up in the price table, where it is not the key of this section."""
    description: str = ""
    """What it is good at, for the orchestrator."""


def _check_provider(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    # Whatever stands there: a list could not be looked up.
    provider = str(value.get("provider", "openai-compatible"))
    if provider in ("openai-compatible", "simulated", "recorded"):
        return {**value, "provider": provider}
    if provider in _HOSTS:
        url, env = _HOSTS[provider]
        raise fault(
            f"{provider!r} by name comes with a later release; for now write provider: openai-compatible, "
            f"base_url: {url}, api_key_env: {env}",
            at=["provider"],
        )
    meant = did_you_mean(provider, ["openai-compatible", "simulated", "recorded"])
    raise fault(f"no provider {provider[:60]!r}; {meant}", at=["provider"])


ModelSettings = Annotated[
    Annotated[ChatModelSettings | SimulatedModelSettings | RecordedModelSettings, Field(discriminator="provider")],
    BeforeValidator(_check_provider),
]
"""One model that can be called, told apart by ``provider``."""
