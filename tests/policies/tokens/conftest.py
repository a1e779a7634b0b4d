"""Tiny models and tokenizers, built on the spot: real architectures, no downloads, seconds in all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from toolorchestra.messages import ToolSpec

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

CORPUS = (
    "system\nAnswer the question. Use the tools.\nsearch(topic: string): finds passages. user\nassistant\ntool\n"
    '<tool_call>\n{"name": "search", "arguments": {"topic": "rivers"}}\n</tool_call>',
    '{"name": "ask_more", "arguments": {"model": "small", "effort": 12, "deep": true}}\n</tool_call>',
    '{"name": "submit_answer", "arguments": {"result": "1"}} {"expression": "12 * (3 + 4)", "x": 1.5, "y": null}',
    "What is the capital of France? Paris. I am not sure. Maybe Lyon, but who knows. [1] 84 [2] Error: no result",
    'true, false, null, "a", "b"}, "c": ["d", "e"], {"f": 10, "g": 100}}]',
)

# In the manner of Qwen3's: tools in the system message, results in a user block, thinking dropped before the last
# question.
TEMPLATE = """\
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'user' %}<|im_start|>user
{{ m.content }}<|im_end|>
{% elif m.role == 'assistant' %}<|im_start|>assistant
{% if m.reasoning_content and loop.index0 > ns.last %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}
{%- for call in m.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% elif m.role == 'tool' %}
{%- if loop.previtem.role != 'tool' %}<|im_start|>user{% endif %}
<tool_response>
{{ m.content }}
</tool_response>{% if loop.last or loop.nextitem.role != 'tool' %}<|im_end|>
{% endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def make_tokenizer(*, tags: bool = False, template: str | None = None) -> PreTrainedTokenizerFast:
    """A byte-level BPE with ChatML's tokens, trained on a few lines."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=480,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(SPECIALS),
        show_progress=False,
    )
    bpe.train_from_iterator(CORPUS * 3, trainer)
    if tags:
        bpe.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", bos_token="<|endoftext|>"
    )
    tokenizer.chat_template = template
    return tokenizer


def make_llama(vocabulary: int, *, seed: int = 0, scale: float = 4.0) -> LlamaForCausalLM:
    """Two layers in 32-bit floats. The head is scaled up so that distributions are not flat."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(scale / 0.2)
    return model


def make_qwen(vocabulary: int) -> Qwen3ForCausalLM:
    """A Qwen3 of two layers."""
    torch.manual_seed(1)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=2048,
    )
    return Qwen3ForCausalLM(config).eval()


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """ChatML without a template, like SmolLM2's in our use."""
    return make_tokenizer()


@pytest.fixture(scope="session")
def qwen_tokenizer() -> PreTrainedTokenizerFast:
    """ChatML with a template that knows tools and drops earlier thinking."""
    return make_tokenizer(tags=True, template=TEMPLATE)


@pytest.fixture(scope="session")
def llama(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """For reading only; make your own to train one."""
    return make_llama(len(tokenizer))


@pytest.fixture(scope="session")
def qwen(qwen_tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """For reading only."""
    return make_qwen(len(qwen_tokenizer))


def spec(name: str, properties: dict[str, Any] | None = None, required: tuple[str, ...] | None = None) -> ToolSpec:
    """A tool with these parameters, all required unless said."""
    properties = properties or {}
    needed = tuple(properties) if required is None else required
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(needed),
        "additionalProperties": False,
    }
    return ToolSpec(name, f"does {name}", parameters)


def make_tools() -> tuple[ToolSpec, ...]:
    """Names that begin alike, values that begin alike, optional arguments."""
    effort = {"type": "integer", "minimum": 1, "maximum": 12}
    return (
        spec("ask", {"model": {"enum": ["small", "large"]}, "effort": effort}),
        spec("ask_more", {"deep": {"type": "boolean"}, "effort": {"enum": [1, 12, 123]}}, required=()),
        spec("search", {"topic": {"enum": ["rivers", "river", "kings"]}}),
    )


@pytest.fixture(scope="session")
def tools() -> tuple[ToolSpec, ...]:
    """Some tools."""
    return make_tools()
