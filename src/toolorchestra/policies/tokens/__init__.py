"""The trainable policy: a language model that samples tokens, keeps them, and is trained on exactly those.

Importing this package loads torch; the rest of :mod:`toolorchestra.policies` does not.
"""

from __future__ import annotations

from pathlib import Path

from toolorchestra.policies.tokens.loading import TokenModel, load_token_model
from toolorchestra.policies.tokens.policy import Decoding, DecodingSpeed, TokenPolicy, TokenPolicyFactory
from toolorchestra.policies.tokens.weights import smollm2_folder
from toolorchestra.pricing import Price

__all__ = [
    "Decoding",
    "DecodingSpeed",
    "TokenModel",
    "TokenPolicy",
    "TokenPolicyFactory",
    "load_policy",
    "load_token_model",
    "smollm2_folder",
]


def load_policy(
    folder: Path,
    *,
    name: str = "orchestrator",
    decoding: Decoding = "calls",
    temperature: float = 0.0,
    max_tokens: int = 512,
    seed: int = 0,
    price: Price | None = None,
    speed: DecodingSpeed | None = None,
) -> TokenPolicyFactory:
    """A trained policy, ready to act.

    Args:
        folder: The model folder.
        name: For trajectories and reports.
        decoding: What a turn may consist of.
        temperature: 0 takes the likeliest token.
        max_tokens: Bound on a turn's free text.
        seed: Of the sampling, where the temperature is above 0.
        price: Of the model's own tokens; ``None`` makes its cost unknown.
        speed: Its simulated seconds; ``None`` for the real clock.

    Raises:
        UserError: The folder holds no model that can be used.
    """
    from toolorchestra.policies.tokens.engine import TokenEngine

    loaded = load_token_model(folder, dtype="bfloat16")
    return TokenPolicyFactory(
        TokenEngine(loaded.model),
        loaded.format,
        loaded.matchers,
        name=name,
        decoding=decoding,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
        price=price,
        speed=speed,
    )
