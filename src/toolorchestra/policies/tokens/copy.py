"""A copy of a model to sample from while the original is trained."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch


class SamplingCopy:
    """Samples in 16-bit floats what is trained in 32: half the memory to read in every decoding step.

    Args:
        model: The model being trained.
        dtype: Of the copy.

    Attributes:
        model: The copy.
    """

    def __init__(self, model: Any, *, dtype: Literal["float32", "bfloat16"] = "bfloat16") -> None:
        self._source = model
        self.model = copy.deepcopy(model).to(getattr(torch, dtype)).eval().requires_grad_(False)

    @torch.no_grad()
    def refresh(self) -> None:
        """Take over the weights that are being trained; frozen ones are there already."""
        for mine, trained in zip(self.model.parameters(), self._source.parameters(), strict=True):
            if trained.requires_grad:
                mine.copy_(trained)


def train_top_layers(model: Any, layers: int | None) -> int:
    """Leave only the top layers trainable (all parameters for ``None``); returns how many parameters train.

    A frozen bottom needs no backward pass, which is most of the time on a CPU. It is kept in 16-bit floats, as it is
    sampled with: nothing is converted in every pass, and the two distributions are closer to each other.
    """
    model.requires_grad_(layers is None)
    if layers is not None:
        model.to(torch.bfloat16)
        stack = max(
            (module for module in model.modules() if isinstance(module, torch.nn.ModuleList)), key=len, default=None
        )
        for layer in list(stack or ())[-layers:]:
            layer.float().requires_grad_(True)
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
