"""One forward pass over token trees, and the distribution over what was allowed: the same in sampler and trainer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, cast

import torch

from toolorchestra.errors import UserError
from toolorchestra.trajectory import AllowedTokens


def cache_argument(base: torch.nn.Module) -> str:
    """The name under which this version of the model takes its cache."""
    return "cache" if "cache" in inspect.signature(base.forward).parameters else "past_key_values"


def base_model(model: Any) -> torch.nn.Module:
    """The transformer without its head.

    Raises:
        UserError: The head does more than one linear map (capped or scaled logits), which the restricted
            distributions here do not compute; or its layers do not all attend to every token before (token trees
            need that), or they do so by code that takes no mask.
    """
    head = model.get_output_embeddings()
    capped = [
        name
        for name in ("final_logit_softcapping", "logits_scaling", "logit_scale")
        if getattr(model.config, name, None) not in (None, 1, 1.0)
    ]
    if not isinstance(head, torch.nn.Linear) or capped:
        why = f"its configuration sets {capped[0]}" if capped else "its head is not one linear layer"
        raise UserError(
            f"{type(model).__name__} cannot be trained by tokens here: {why}; use a Llama- or Qwen-like model"
        )
    _check_attention(model)
    unwrapped = model.get_base_model() if hasattr(model, "get_base_model") else model
    return cast(torch.nn.Module, getattr(unwrapped, unwrapped.base_model_prefix))


def _check_attention(model: Any) -> None:
    layers = set(getattr(model.config, "layer_types", None) or ()) - {"full_attention"}
    if layers:
        raise UserError(
            f"{type(model).__name__} cannot be trained by tokens here: its layers use {', '.join(sorted(layers))}; use "
            "a model with full attention in every layer"
        )
    code = getattr(model.config, "_attn_implementation", "sdpa")
    if code not in ("sdpa", "eager"):
        raise UserError(f"the model was loaded with attn_implementation={code!r}, which takes no mask; use 'sdpa'")


def hidden_states(
    base: torch.nn.Module, ids: torch.Tensor, positions: torch.Tensor, visible: torch.Tensor, cache: Any = None
) -> torch.Tensor:
    """Last hidden states of tokens that attend to what ``visible`` says.

    Args:
        base: From :func:`base_model`.
        ids: Shape (rows, tokens).
        positions: Shape (rows, tokens).
        visible: Booleans of shape (rows, tokens, keys). A token that sees nothing (padding) must see itself.
        cache: A cache that ``ids`` are added to, or ``None``.

    Returns:
        Shape (rows, tokens, hidden size).
    """
    arguments: dict[str, Any] = {cache_argument(base): cache} if cache is not None else {"use_cache": False}
    mask = visible.unsqueeze(1)
    if getattr(base.config, "_attn_implementation", "sdpa") == "eager":  # it adds its mask to the scores
        lowest = torch.finfo(torch.float32).min
        mask = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, lowest)
    output = base(input_ids=ids, position_ids=positions, attention_mask=mask, **arguments)
    return cast(torch.Tensor, output.last_hidden_state)


def allowed_index(allowed: AllowedTokens | None, vocabulary: int) -> list[int] | None:
    """The allowed tokens as a list; ``None`` for all of them."""
    if allowed is None or (not allowed.only and not allowed.ids):
        return None
    if allowed.only:
        return list(allowed.ids)
    keep = torch.ones(vocabulary, dtype=torch.bool)
    # A grammar's bit mask is padded beyond the vocabulary.
    keep[[token for token in allowed.ids if token < vocabulary]] = False
    return cast("list[int]", keep.nonzero().squeeze(1).tolist())


def log_distribution(
    head: torch.nn.Linear, hidden: torch.Tensor, allowed: Sequence[int] | None, temperature: float
) -> torch.Tensor:
    """Log-probabilities over the allowed tokens, in 32-bit floats.

    Args:
        head: The output layer; only the rows of the allowed tokens are used.
        hidden: Shape (..., hidden size).
        allowed: Token ids; ``None`` for the whole vocabulary.
        temperature: Divides the logits; the result is the distribution that is really sampled from.

    Returns:
        Shape (..., number of allowed tokens), in the order of ``allowed``.
    """
    weight: torch.Tensor = head.weight
    bias: torch.Tensor | None = head.bias
    if allowed is not None:
        index = torch.as_tensor(allowed, device=weight.device)
        weight = weight[index]
        bias = None if bias is None else bias[index]
    # Outside any autocast: a distribution over few tokens costs nothing, and 8 bits of mantissa would show.
    with torch.autocast(device_type=hidden.device.type, enabled=False):
        logits = torch.nn.functional.linear(hidden.float(), weight.float(), None if bias is None else bias.float())
        return torch.log_softmax(logits / temperature, dim=-1)
