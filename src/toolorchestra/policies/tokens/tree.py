"""A tree of tokens: sequences that begin alike share their beginning.

The rollouts of a group begin with the same prompt, and often with the same first call and the same observation. Laid
out as a tree, every distinct token is computed once, in sampling and (exactly) in the gradient: a token attends to its
ancestors and to itself, at its depth as position, so its hidden state is the one that it has in its own sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

ROOT = -1
"""The parent of first tokens."""


@dataclass(slots=True)
class TokenTree:
    """Tokens in slots; a slot's parent always stands in an earlier slot.

    Attributes:
        ids: The token of each slot.
        parents: The slot before it in its sequence, or ``ROOT``.
        depths: The token's position in its sequence, from 0.
    """

    ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    _children: dict[tuple[int, int], int] = field(default_factory=dict)
    _filled: int = 0
    _visible: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.ids)

    def extend(self, leaf: int, ids: Sequence[int]) -> int:
        """Append tokens after a slot, reusing slots that stand there already. Returns the slot of the last token."""
        for token in ids:
            slot = self._children.get((leaf, token))
            if slot is None:
                slot = len(self.ids)
                self._children[leaf, token] = slot
                self.ids.append(token)
                self.parents.append(leaf)
                self.depths.append(0 if leaf == ROOT else self.depths[leaf] + 1)
            leaf = slot
        return leaf

    def path(self, leaf: int) -> list[int]:
        """The slots of a sequence, first token first."""
        slots: list[int] = []
        while leaf != ROOT:
            slots.append(leaf)
            leaf = self.parents[leaf]
        return slots[::-1]

    def visible(self, start: int = 0) -> NDArray[np.bool_]:
        """Which slots (columns) each slot from ``start`` on (rows) may attend to: its ancestors and itself.

        Returns:
            Booleans of shape (len - start, len).
        """
        self._fill_visible()
        return self._visible[start : len(self), : len(self)]

    def _fill_visible(self) -> None:
        known, wanted = self._filled, len(self)
        if wanted > self._visible.shape[0]:
            size = max(64, 2 * wanted)
            grown = np.zeros((size, size), dtype=np.bool_)
            grown[:known, :known] = self._visible[:known, :known]
            self._visible = grown
        for slot in range(known, wanted):
            parent = self.parents[slot]
            if parent != ROOT:
                self._visible[slot, : parent + 1] = self._visible[parent, : parent + 1]
            self._visible[slot, slot] = True
        self._filled = wanted
