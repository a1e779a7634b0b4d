from __future__ import annotations

import json

import pytest
import torch

from toolorchestra.errors import UserError
from toolorchestra.messages import Message
from toolorchestra.policies.tokens import load_policy
from toolorchestra.policies.tokens.format import CompactChatML, TemplateFormat
from toolorchestra.policies.tokens.guidance import GuidanceMatchers
from toolorchestra.policies.tokens.loading import TokenModel, load_token_model
from toolorchestra.tasks import Task


def save(model, tokenizer, folder, name="compact"):
    chat = CompactChatML(tokenizer) if name == "compact" else TemplateFormat(tokenizer)
    TokenModel(model, tokenizer, chat, name, GuidanceMatchers(tokenizer)).save(folder)


def test_what_was_saved_loads_as_it_was(llama, tokenizer, tmp_path):
    save(llama, tokenizer, tmp_path / "model")
    loaded = load_token_model(tmp_path / "model")
    assert isinstance(loaded.format, CompactChatML)
    assert loaded.format_name == "compact"
    assert not loaded.model.training
    messages = [Message("user", "<|im_end|> é")]
    assert loaded.format.prompt(messages, ()) == CompactChatML(tokenizer).prompt(messages, ())
    for mine, its in zip(loaded.model.parameters(), llama.parameters(), strict=True):
        assert torch.equal(mine, its)
    assert load_token_model(tmp_path / "model", dtype="bfloat16").model.dtype is torch.bfloat16


def test_saving_replaces_a_folder_whole(llama, tokenizer, tmp_path):
    folder = tmp_path / "model"
    save(llama, tokenizer, folder)
    (folder / "left over").touch()
    save(llama, tokenizer, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert not {"left over"} & {path.name for path in folder.iterdir()}


def test_the_format_is_what_the_folder_says_else_what_the_template_can(qwen, qwen_tokenizer, tmp_path):
    save(qwen, qwen_tokenizer, tmp_path / "model", "compact")
    assert isinstance(load_token_model(tmp_path / "model").format, CompactChatML)
    (tmp_path / "model" / "orchestrator.json").unlink()
    assert isinstance(load_token_model(tmp_path / "model").format, TemplateFormat), "the template knows tools"
    assert isinstance(load_token_model(tmp_path / "model", chat_format="compact").format, CompactChatML)


def test_a_template_without_tools_is_not_used(llama, tokenizer, tmp_path):
    save(llama, tokenizer, tmp_path / "model")
    (tmp_path / "model" / "orchestrator.json").write_text(json.dumps({"format": "strange"}))
    assert isinstance(load_token_model(tmp_path / "model").format, CompactChatML)


def test_a_missing_or_torn_folder_names_itself(llama, tokenizer, tmp_path):
    with pytest.raises(UserError, match=r"nowhere: no model is here"):
        load_token_model(tmp_path / "nowhere")
    save(llama, tokenizer, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"model: the model cannot be read"):
        load_token_model(tmp_path / "model")


async def test_a_loaded_policy_acts_greedily_by_default(llama, tokenizer, tools, tmp_path):
    save(llama, tokenizer, tmp_path / "model")
    factory = load_policy(tmp_path / "model", name="mine")
    assert factory.name == "mine"
    found = []
    for sample in range(2):
        policy = factory.episode(Task("t", "q", "a"), sample)
        found.append((await policy.act((Message("user", "hi"),), tools)).tokens.ids)
        await policy.aclose()
    assert found[0] == found[1]
