"""A simulated language model: it answers from a key, right as often as its skill says, at a stated price and speed.

It lets a whole market of models run offline, exactly reproducibly and in no time: what it says depends only on the
seed, its name and the question (and the sample's number, if asked). Nothing sleeps; its seconds are on the record.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from toolorchestra.errors import UserError
from toolorchestra.messages import Message, ToolSpec
from toolorchestra.models.base import Completion, Sampling
from toolorchestra.pricing import Price, Usage
from toolorchestra.trajectory import Charge

READING = "reading"
"""The skill that applies when the evidence for the answer is in the conversation."""

DO_NOT_KNOW = "I do not know."

_HEDGED = ("{}, but I am not sure.", "I am not sure. Maybe {}.")
_HEDGES = tuple(re.compile(re.escape(form).replace(re.escape("{}"), "(.+)")) for form in _HEDGED)
_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One question that simulated models can be asked.

    Attributes:
        question: Its exact text.
        answer: The right answer.
        kind: Which skill it needs.
        distractors: Plausible wrong answers.
        evidence: Texts any of which, standing in the conversation, shows the answer (a passage, a computed number).
    """

    question: str
    answer: str
    kind: str
    distractors: tuple[str, ...]
    evidence: tuple[str, ...] = ()


class AnswerKey:
    """Key entries, found by their question's text within a conversation."""

    def __init__(self, entries: Iterable[KeyEntry]) -> None:
        # The longest question first, so that a question that contains another one is found as itself.
        self._entries = sorted(entries, key=lambda entry: -len(entry.question))

    def find(self, text: str) -> KeyEntry | None:
        """The entry whose question stands in the text, if there is one."""
        return next((entry for entry in self._entries if entry.question in text), None)


@dataclass(frozen=True, slots=True)
class Candour:
    """How often a model states an answer plainly, without saying that it is not sure.

    Attributes:
        right: Share of right answers that are stated plainly.
        wrong: Share of wrong answers that are stated plainly all the same.
    """

    right: float = 0.92
    wrong: float = 0.1


class Statement(NamedTuple):
    """What a simulated model said: the bare answer, and whether it was sure of it."""

    answer: str
    sure: bool


def state(statement: Statement, form: int = 0) -> str:
    """Put an answer into words. ``form`` picks one of the hedged forms."""
    if statement.sure:
        return f"{statement.answer}."
    return _HEDGED[form % len(_HEDGED)].format(statement.answer)


def read_statement(text: str) -> Statement:
    """Read the words of :func:`state` back."""
    text = text.strip()
    for hedge in _HEDGES:
        if found := hedge.fullmatch(text):
            return Statement(found[1], sure=False)
    return Statement(text.removesuffix("."), sure=text != DO_NOT_KNOW)


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """A model of stated skill, price and speed.

    Attributes:
        name: Its name on charges. Models of different names err on different questions.
        skills: Probability of a right answer by kind of question, and by ``reading`` where the evidence is at hand. A
            kind that is not named is not known at all.
        price: What a call and its tokens cost.
        latency_s: Seconds of one answer.
        output_tokens: Tokens of one answer, thinking included.
        answer_key: What there is to know.
        seed: Another seed is another model of the same skill.
        candour: How often it is sure.
        per_sample: Whether other samples (told apart by ``Sampling.seed``) may be answered otherwise.

    Raises:
        UserError: A skill is no probability.
    """

    name: str
    skills: Mapping[str, float]
    price: Price
    latency_s: float
    output_tokens: int
    answer_key: AnswerKey
    seed: int = 0
    candour: Candour = field(default_factory=Candour)
    per_sample: bool = False

    def __post_init__(self) -> None:
        for kind, skill in self.skills.items():
            if not 0.0 <= skill <= 1.0:
                raise UserError(f"the simulated model {self.name!r} has skill {skill!r} for {kind!r}; use 0 to 1")

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec] = (), sampling: Sampling = Sampling()
    ) -> Completion:
        """Answer the question of the key that stands in the conversation. It never calls tools."""
        text = "\n".join(message.content for message in messages)
        content = self._reply(text, sampling.seed if self.per_sample else None)
        usage = Usage(input_tokens=-(-len(text) // _CHARS_PER_TOKEN), output_tokens=self.output_tokens)
        charge = Charge(
            source=self.name,
            usd=self.price.cost(usage, self.latency_s),
            latency_s=self.latency_s,
            usage=usage,
            price=self.price.label,
        )
        return Completion(Message("assistant", content), (charge,), latency_s=self.latency_s, model=self.name)

    def _reply(self, text: str, sample: int | None) -> str:
        entry = self.answer_key.find(text)
        if entry is None:
            return DO_NOT_KNOW
        kind = READING if has_evidence(entry, text) and READING in self.skills else entry.kind
        right = self._draw("right", entry, sample) < self.skills.get(kind, 0.0)
        answer = entry.answer if right else self._wrong(entry, sample)
        plain = self.candour.right if right else self.candour.wrong
        sure = self._draw("sure", entry, sample) < plain
        return state(Statement(answer, sure), form=int(self._draw("form", entry, sample) * len(_HEDGED)))

    def _wrong(self, entry: KeyEntry, sample: int | None) -> str:
        if not entry.distractors:
            return "unknown"
        return entry.distractors[int(self._draw("wrong", entry, sample) * len(entry.distractors))]

    def _draw(self, what: str, entry: KeyEntry, sample: int | None) -> float:
        """A number in [0, 1) that looks random and depends on the arguments alone, whatever was asked before."""
        parts = (str(self.seed), self.name, what, entry.question, str(sample))
        digest = hashlib.blake2b("\x00".join(parts).encode(), digest_size=6).digest()
        return int.from_bytes(digest) / 256**6


def has_evidence(entry: KeyEntry, text: str) -> bool:
    """Whether a piece of the entry's evidence stands in the text, outside the question, as whole words or numbers."""
    rest = _spaces(text.replace(entry.question, " "))
    return any(re.search(_whole(_spaces(piece)), rest) for piece in entry.evidence)


def _whole(piece: str) -> str:
    return rf"(?<![\w\-])(?<!\d[.,]){re.escape(piece)}(?!\w)(?![.,]\d)"


def _spaces(text: str) -> str:
    return " ".join(text.split())
