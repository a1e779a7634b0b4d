"""The sampler: many episodes on one transformers model, each at its own pace.

It keeps the keys and values of every episode across its turns, computes what the rollouts of a group have in common
once (their token tree, see :mod:`.tree`), and in every forward pass serves whatever episodes are ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from toolorchestra.policies.tokens.cache import TreeCache
from toolorchestra.policies.tokens.constraint import TurnConstraint
from toolorchestra.policies.tokens.forward import allowed_index, base_model, hidden_states, log_distribution
from toolorchestra.policies.tokens.grammar import Forced
from toolorchestra.policies.tokens.tree import ROOT, TokenTree
from toolorchestra.trajectory import AllowedTokens, SampledTurn

TOKENS_PER_PASS = 2048
"""Bound on the padded tokens of one forward pass: it bounds the memory of a prefill."""


class _Distribution(NamedTuple):
    """What one choice was made from: the allowed tokens (``None`` for all) and their log-probabilities."""

    tokens: list[int] | None
    logs: NDArray[np.float64]


@dataclass(slots=True, eq=False)
class _Row:
    """The tree of one group and its place in the cache."""

    index: int
    tree: TokenTree = field(default_factory=TokenTree)
    computed: int = 0
    hidden: list[torch.Tensor] = field(default_factory=list)
    episodes: int = 0


@dataclass(slots=True, eq=False)
class EpisodeTokens:
    """One episode's tokens in its group's tree. Made by :meth:`TokenEngine.open`."""

    row: _Row
    group: str
    leaf: int = ROOT
    pending: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Turn:
    """A turn that is being decoded."""

    sequence: EpisodeTokens
    constraint: TurnConstraint
    rng: np.random.Generator
    temperature: float
    done: asyncio.Future[None]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    allowed: list[AllowedTokens | None] = field(default_factory=list)
    choice: AllowedTokens | None = None
    error: Exception | None = None

    def run_to_choice(self) -> bool:
        """Append all that is forced; false when the turn is complete (its last tokens stay pending) or broken.

        What a constraint raises breaks this turn alone, not the others of its pass.
        """
        try:
            return self.error is None and self._run_to_choice()
        except Exception as error:
            self.error = error
            return False

    def _run_to_choice(self) -> bool:
        while True:
            need = self.constraint.need()
            if need is None:
                return False
            if not isinstance(need, Forced):
                self.choice = need.allowed
                return True
            self._append(need.ids, 0.0, False, None)
            self.constraint.commit(need.ids)

    def choose(self, token: int, logprob: float) -> None:
        """Append the chosen token."""
        free = self.choice is None or (not self.choice.only and not self.choice.ids)
        self._append((token,), logprob, True, None if free else self.choice)
        try:
            self.constraint.commit((token,))
        except Exception as error:
            self.error = error

    def settle(self) -> None:
        """Tell the episode that its turn is over."""
        if self.done.done():
            return
        if self.error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(self.error)

    def _append(self, ids: Sequence[int], logprob: float, sampled: bool, allowed: AllowedTokens | None) -> None:
        self.sequence.pending.extend(ids)
        for token in ids:
            self.ids.append(token)
            self.logprobs.append(logprob)
            self.sampled.append(sampled)
            self.allowed.append(allowed)


class TokenEngine:
    """Samples turns of many episodes from one model.

    Args:
        model: A causal language model of transformers with a plain linear head. Its weights are read at every pass.
        tokens_per_pass: Bound on the padded tokens of one forward pass.

    Raises:
        UserError: The model's head is not a plain linear layer.
    """

    def __init__(self, model: Any, *, tokens_per_pass: int = TOKENS_PER_PASS) -> None:
        self._base = base_model(model)
        self._head = cast(torch.nn.Linear, model.get_output_embeddings())
        self._device = next(model.parameters()).device
        self._tokens_per_pass = tokens_per_pass
        self._cache = TreeCache()
        self._rows: dict[str, _Row] = {}
        self._free_rows: list[int] = []
        self._row_count = 0
        self._waiting: list[_Turn] = []
        self._worker: asyncio.Task[None] | None = None
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sampler")
        self.computed_tokens = 0
        self.passes = 0

    def open(self, group: str) -> EpisodeTokens:
        """Begin an episode. Episodes of one group share what their tokens have in common."""
        row = self._rows.get(group)
        if row is None:
            row = self._rows[group] = _Row(self._take_row())
        row.episodes += 1
        return EpisodeTokens(row, group)

    def close(self, sequence: EpisodeTokens) -> None:
        """End an episode; the group's cache is freed with its last one."""
        sequence.row.episodes -= 1
        if sequence.row.episodes == 0:
            self._free_rows.append(sequence.row.index)
            self._rows.pop(sequence.group, None)

    async def decode(
        self,
        sequence: EpisodeTokens,
        context_ids: Sequence[int],
        constraint: TurnConstraint,
        *,
        rng: np.random.Generator,
        temperature: float = 1.0,
        continues: bool,
        policy_version: int = 0,
    ) -> SampledTurn:
        """Sample one turn.

        Args:
            sequence: The episode.
            context_ids: Tokens to put before the turn: a whole prompt, or what came since the last turn.
            constraint: What the turn may consist of.
            rng: The episode's own random stream.
            temperature: 0 takes the most likely token (its log-probability is then that at temperature 1).
            continues: False starts a new sequence in the group's tree.
            policy_version: Recorded with the turn.
        """
        if not continues:
            sequence.leaf, sequence.pending = ROOT, []
        sequence.pending.extend(context_ids)
        loop = asyncio.get_running_loop()
        turn = _Turn(sequence, constraint, rng, temperature, loop.create_future())
        self._waiting.append(turn)
        # A worker of another event loop (an earlier run, closed in the middle of its work) will never run again.
        if self._worker is None or self._worker.done() or self._worker.get_loop() is not loop:
            self._worker = loop.create_task(self._serve())
        await turn.done
        return SampledTurn(
            context_ids=tuple(context_ids),
            ids=tuple(turn.ids),
            logprobs=tuple(turn.logprobs),
            sampled=tuple(turn.sampled),
            allowed=tuple(turn.allowed),
            continues=continues,
            policy_version=policy_version,
            temperature=temperature,
        )

    async def _serve(self) -> None:
        """Advance all turns, one forward pass at a time; turns that arrive meanwhile join the next pass."""
        active: list[_Turn] = []
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._gather()
                active.extend(turn for turn in self._waiting if not turn.done.done())
                self._waiting.clear()
                active = [turn for turn in active if not turn.done.done()]  # drops cancelled episodes
                if not active:
                    return
                finished = await loop.run_in_executor(self._pool, self._advance, active)
                for turn in finished:
                    turn.settle()
                active = [turn for turn in active if turn not in finished]
        except Exception as error:
            for turn in (*active, *self._waiting):
                if not turn.done.done():
                    turn.done.set_exception(error)
            self._waiting.clear()

    async def _gather(self) -> None:
        """Let episodes that are about to ask do so, so that they share a pass; stops as soon as no more come."""
        quiet = 0
        while quiet < 5:
            before = len(self._waiting)
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(self._waiting) == before else 0

    @torch.no_grad()
    def _advance(self, turns: list[_Turn]) -> list[_Turn]:
        """One pass: write what is forced, compute it, make one choice a turn. Returns the turns that are complete."""
        finished = [turn for turn in turns if not turn.run_to_choice()]
        choosing = [turn for turn in turns if turn not in finished]
        for turn in choosing:
            sequence = turn.sequence
            sequence.leaf = sequence.row.tree.extend(sequence.leaf, sequence.pending)
            sequence.pending = []
        self._compute(list({id(turn.sequence.row): turn.sequence.row for turn in choosing}.values()))
        distributions = self._distributions(choosing)
        for turn in choosing:
            self._choose(turn, distributions[_what_is_chosen(turn)])
        finished += [turn for turn in choosing if not turn.run_to_choice()]
        return finished

    def _distributions(self, turns: list[_Turn]) -> dict[Any, _Distribution]:
        """One distribution a choice that is due.

        Choices among the same tokens are computed together, since a free one reads the whole output layer.
        """
        alike: dict[tuple[float, AllowedTokens | None], dict[Any, torch.Tensor]] = {}
        for turn in turns:
            hidden = turn.sequence.row.hidden[turn.sequence.leaf]
            alike.setdefault((turn.temperature or 1.0, turn.choice), {})[_what_is_chosen(turn)] = hidden
        found: dict[Any, _Distribution] = {}
        for (temperature, choice), places in alike.items():
            index = allowed_index(choice, self._head.out_features)
            logs = log_distribution(self._head, torch.stack(list(places.values())), index, temperature)
            for key, row in zip(places, logs.double().cpu().numpy(), strict=True):
                found[key] = _Distribution(index, row)
        return found

    def _choose(self, turn: _Turn, distribution: _Distribution) -> None:
        index, logs = distribution
        if turn.temperature == 0:
            position = int(logs.argmax())
        else:
            cumulative = np.exp(logs).cumsum()
            position = min(int(np.searchsorted(cumulative, turn.rng.random() * cumulative[-1], "right")), len(logs) - 1)
        turn.choose(position if index is None else index[position], float(logs[position]))

    def _compute(self, rows: list[_Row]) -> None:
        for chunk in self._chunks([row for row in rows if row.computed < len(row.tree)]):
            self._forward(chunk)

    def _chunks(self, rows: list[_Row]) -> Iterator[list[_Row]]:
        """Rows of like length together, so that little is padded, within the bound of a pass."""
        rows = sorted(rows, key=lambda row: (len(row.tree) - row.computed, row.index))
        chunk: list[_Row] = []
        for row in rows:
            if chunk and (len(chunk) + 1) * (len(row.tree) - row.computed) > self._tokens_per_pass:
                yield sorted(chunk, key=lambda each: each.index)
                chunk = []
            chunk.append(row)
        if chunk:
            yield sorted(chunk, key=lambda each: each.index)

    def _forward(self, rows: list[_Row]) -> None:
        new = max(len(row.tree) - row.computed for row in rows)
        length = max(len(row.tree) for row in rows)
        ids = torch.zeros((len(rows), new), dtype=torch.long)
        positions = torch.zeros((len(rows), new), dtype=torch.long)
        slots = torch.full((len(rows), new), -1, dtype=torch.long)
        visible = np.zeros((len(rows), new, length), dtype=np.bool_)
        visible[:, :, 0] = True  # padding sees something, or its softmax would be 0/0; nothing reads the result
        for number, row in enumerate(rows):
            tree, start, count = row.tree, row.computed, len(row.tree) - row.computed
            ids[number, :count] = torch.tensor(tree.ids[start:])
            positions[number, :count] = torch.tensor(tree.depths[start:])
            slots[number, :count] = torch.arange(start, len(tree))
            visible[number, :count, :] = False
            visible[number, :count, : len(tree)] = tree.visible(start)
        self._cache.reserve(self._row_count, length)
        self._cache.aim([row.index for row in rows], slots, length)
        device = self._device
        mask = torch.from_numpy(visible).to(device)
        hidden = hidden_states(self._base, ids.to(device), positions.to(device), mask, self._cache)
        for number, row in enumerate(rows):
            row.hidden.extend(hidden[number, : len(row.tree) - row.computed].unbind(0))
            row.computed = len(row.tree)
        self.computed_tokens += int((slots >= 0).sum())
        self.passes += 1

    def _take_row(self) -> int:
        if self._free_rows:
            return self._free_rows.pop()
        self._row_count += 1
        return self._row_count - 1


def _what_is_chosen(turn: _Turn) -> tuple[int, int, float, AllowedTokens | None]:
    """Turns with the same key choose from the same distribution."""
    return turn.sequence.row.index, turn.sequence.leaf, turn.temperature or 1.0, turn.choice
