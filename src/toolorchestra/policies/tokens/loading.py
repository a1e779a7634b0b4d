"""Load a model that can be trained by tokens, and save one so that it loads again with its format."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from toolorchestra.errors import UserError
from toolorchestra.policies.tokens.format import ChatFormat, CompactChatML, TemplateFormat
from toolorchestra.policies.tokens.guidance import GuidanceMatchers

FormatName = Literal["compact", "template"]
_CARD = "orchestrator.json"


@dataclass(frozen=True, slots=True)
class TokenModel:
    """A causal language model with all that is needed to talk to it in tokens.

    Attributes:
        model: A transformers model.
        tokenizer: Its tokenizer.
        format: How conversations become tokens.
        format_name: Its name, kept when saving.
        matchers: Grammars over the tokenizer.
    """

    model: Any
    tokenizer: Any
    format: ChatFormat
    format_name: FormatName
    matchers: GuidanceMatchers

    def save(self, folder: Path) -> None:
        """Write weights, tokenizer and format in one piece: the folder is there whole or not at all."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))  # its own, if two do this at once
        part.chmod(0o755)
        self.model.save_pretrained(part)
        self.tokenizer.save_pretrained(part)
        (part / _CARD).write_text(json.dumps({"format": self.format_name}), encoding="utf-8")
        _remove(folder)
        part.rename(folder)


def load_token_model(
    folder: Path, *, dtype: Literal["float32", "bfloat16"] = "float32", chat_format: FormatName | None = None
) -> TokenModel:
    """Load a model folder.

    Args:
        folder: As ``save_pretrained`` or :meth:`TokenModel.save` writes it.
        dtype: Of the weights: 32-bit floats to train, 16-bit ones to sample.
        chat_format: ``compact`` or ``template``; by default what the folder says, else ``template`` where the chat
            template knows tools and ``compact`` where it does not.

    Raises:
        UserError: The folder is missing or holds no model.
    """
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder}: no model is here (config.json is missing). Name the folder that training wrote "
            "(…/model), or any folder of transformers' save_pretrained"
        )
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: the model cannot be read ({error}); copy it again") from None
    name = chat_format or _format_of(folder, tokenizer)
    chat: ChatFormat = CompactChatML(tokenizer) if name == "compact" else TemplateFormat(tokenizer)
    model.train(False)
    matchers = GuidanceMatchers(tokenizer, vocabulary=int(model.config.vocab_size))
    return TokenModel(model, tokenizer, chat, name, matchers)


def _format_of(folder: Path, tokenizer: Any) -> FormatName:
    card = folder / _CARD
    if card.is_file():
        name = json.loads(card.read_text(encoding="utf-8")).get("format")
        known: tuple[FormatName, ...] = get_args(FormatName)
        if name in known:
            return known[known.index(name)]
    return "template" if "tools" in (tokenizer.chat_template or "") else "compact"


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
