"""The key-value cache of token trees: one row a group, one slot a token."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache


class TreeCache(Cache):
    """Keys and values of many token trees, written and read at any slots.

    A forward pass names its rows and slots with :meth:`aim`; the model then calls :meth:`update` layer by layer. Slots
    that a pass only pads are written to a scratch slot that nothing ever attends to.
    """

    def __init__(self) -> None:
        # No call of the base class: its layers grow by concatenation, which is what this cache avoids.
        self.layers: list[Any] = []
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self._rows = 0
        self._slots = 0
        self._aim_rows: torch.Tensor | slice = slice(0, 0)
        self._aim_index: tuple[torch.Tensor, torch.Tensor] | None = None
        self._aim_length = 0

    def reserve(self, rows: int, slots: int) -> None:
        """Make room for so many rows of so many slots, keeping what is there."""
        if rows <= self._rows and slots <= self._slots:
            return
        rows = max(self._rows, rows if rows <= self._rows else max(rows, 2 * self._rows))
        slots = max(self._slots, slots if slots <= self._slots else max(slots, 2 * self._slots))
        for tensors in (self._keys, self._values):
            for layer, old in enumerate(tensors):
                grown = old.new_zeros((rows, old.shape[1], slots + 1, old.shape[3]))
                grown[: old.shape[0], :, : old.shape[2] - 1] = old[:, :, :-1]
                tensors[layer] = grown
        self._rows, self._slots = rows, slots

    def aim(self, rows: list[int], slots: torch.Tensor, length: int) -> None:
        """Say where the next forward pass writes and how far it reads.

        Args:
            rows: The rows of the pass.
            slots: Shape (rows, tokens): where each token goes; -1 for padding.
            length: How many slots the pass reads.
        """
        index = torch.tensor(rows)
        contiguous = rows == list(range(rows[0], rows[0] + len(rows)))
        self._aim_rows = slice(rows[0], rows[0] + len(rows)) if contiguous else index
        self._aim_index = (index[:, None], slots.masked_fill(slots < 0, self._slots))
        self._aim_length = length

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store one layer's new keys and values; return all that the pass reads: (rows, heads, length, size)."""
        assert self._aim_index is not None, "aim() comes before the forward pass"
        rows, slots = self._aim_index
        out: list[torch.Tensor] = []
        for tensors, states in ((self._keys, key_states), (self._values, value_states)):
            if layer_idx == len(tensors):
                shape = (self._rows, states.shape[1], self._slots + 1, states.shape[3])
                tensors.append(states.new_zeros(shape))
            # An index on either side of a slice puts the indexed axes first: (rows, tokens, heads, size).
            tensors[layer_idx][rows, :, slots] = states.transpose(1, 2)
            out.append(tensors[layer_idx][self._aim_rows, :, : self._aim_length])
        return out[0], out[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Always 0: positions and masks are given explicitly."""
        return 0
