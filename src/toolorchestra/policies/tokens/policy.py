"""The trainable policy: it samples tokens, and keeps them with their log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

import numpy as np

from toolorchestra.messages import Message, ToolSpec
from toolorchestra.parsing import parse_output
from toolorchestra.policies.tokens.constraint import CallOrText, FreeTurn, TurnConstraint
from toolorchestra.policies.tokens.engine import EpisodeTokens, TokenEngine
from toolorchestra.policies.tokens.format import ChatFormat
from toolorchestra.policies.tokens.grammar import CallConstraint, call_segments
from toolorchestra.policies.tokens.guidance import GuidanceMatchers
from toolorchestra.pricing import Price, Usage
from toolorchestra.tasks import Task
from toolorchestra.trajectory import ORCHESTRATOR, Action, Charge, SampledTurn

Decoding = Literal["calls", "calls_or_text", "free"]


@dataclass(frozen=True, slots=True)
class DecodingSpeed:
    """Simulated seconds of the orchestrator's own work, for runs whose clock is virtual.

    Attributes:
        prefill_s: Seconds a token that is read or forced.
        decode_s: Seconds a token that is sampled.
    """

    prefill_s: float = 0.0005
    decode_s: float = 0.01


@dataclass(slots=True)
class TokenPolicyFactory:
    """Makes trainable policies that share one engine.

    Attributes:
        engine: Samples.
        format: Renders.
        matchers: Grammar matchers of free argument values.
        name: For trajectories and reports.
        decoding: ``calls`` (every turn is one well-formed call), ``calls_or_text`` (or a text answer), or ``free``
            (whatever the model writes, thinking included; calls can then be malformed).
        temperature: 1 for training; 0 takes the likeliest.
        max_tokens: Bound on a turn's free text.
        seed: With the task and the sample's number, seeds an episode.
        price: Of the orchestrator's own tokens; ``None`` makes its cost unknown.
        speed: Simulated seconds; ``None`` leaves latency to the loop's clock.
        version: Optimiser updates that the weights have seen; the trainer sets it.
    """

    engine: TokenEngine
    format: ChatFormat
    matchers: GuidanceMatchers
    name: str = ORCHESTRATOR
    decoding: Decoding = "calls"
    temperature: float = 1.0
    max_tokens: int = 512
    seed: int = 0
    price: Price | None = None
    speed: DecodingSpeed | None = None
    version: int = 0

    def episode(self, task: Task, sample: int) -> TokenPolicy:
        """A policy for one episode. Rollouts of one task share their common tokens."""
        stream = np.random.default_rng([self.seed, self.version, sample, *task.id.encode()])
        return TokenPolicy(self, stream, self.engine.open(f"{self.version}/{task.id}"))


@dataclass(slots=True)
class TokenPolicy:
    """One episode's policy. See :class:`TokenPolicyFactory`."""

    factory: TokenPolicyFactory
    rng: np.random.Generator
    sequence: EpisodeTokens
    _seen: int = 0
    _closed: bool = True
    _length: int = 0
    _open: bool = True
    _calls: int = field(default=0)

    @property
    def virtual_clock(self) -> bool:
        """Whether its seconds are simulated; the loop then does not cut it short by real ones."""
        return self.factory.speed is not None

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        """Sample one turn and parse it."""
        factory = self.factory
        context, continues = self._context(history, tools)
        turn = await factory.engine.decode(
            self.sequence,
            context,
            self._constraint(tools),
            rng=self.rng,
            temperature=factory.temperature,
            continues=continues,
            policy_version=factory.version,
        )
        self._closed = bool(turn.ids) and turn.ids[-1] == factory.format.end
        self._seen = len(history) + 1
        finish = "stop" if self._closed else "length"
        parsed = parse_output(factory.format.decode(turn.ids), tools, finish_reason=finish, id_prefix=self._prefix())
        message = parsed.message()
        charge, latency_s = self._charge(turn, continues=continues)
        reason = "tool_calls" if message.tool_calls else finish
        return Action(message, charges=(charge,), latency_s=latency_s, tokens=turn, finish_reason=reason)

    async def aclose(self) -> None:
        """Free the episode's place in the cache."""
        if self._open:
            self._open = False
            self.factory.engine.close(self.sequence)

    def _context(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[list[int], bool]:
        chat = self.factory.format
        if self._seen:
            bridge = chat.bridge(history[: self._seen], history[self._seen :], tools, closed=self._closed)
            if bridge is not None:
                return bridge, True
        return chat.prompt(history, tools), False

    def _constraint(self, tools: Sequence[ToolSpec]) -> TurnConstraint:
        factory, chat = self.factory, self.factory.format
        text = FreeTurn(chat.end, factory.max_tokens)
        if factory.decoding == "free" or not tools:
            return text
        call = CallConstraint(call_segments(tools), chat.encode, factory.matchers, chat.end)
        return call if factory.decoding == "calls" else CallOrText(call, text)

    def _charge(self, turn: SampledTurn, *, continues: bool) -> tuple[Charge, float | None]:
        factory = self.factory
        cached = self._length if continues else 0
        usage = Usage(input_tokens=len(turn.context_ids), output_tokens=len(turn.ids), cache_read_tokens=cached)
        self._length = cached + len(turn.context_ids) + len(turn.ids)
        usd: Decimal | None = None if factory.price is None else factory.price.cost(usage)
        label = "" if factory.price is None else factory.price.label
        latency_s = None
        if factory.speed is not None:
            chosen = sum(turn.sampled)
            read = len(turn.context_ids) + len(turn.ids) - chosen
            latency_s = read * factory.speed.prefill_s + chosen * factory.speed.decode_s
        return Charge(ORCHESTRATOR, usd, latency_s or 0.0, usage, price=label), latency_s

    def _prefix(self) -> str:
        self._calls += 1
        return f"call_{self._calls}"
