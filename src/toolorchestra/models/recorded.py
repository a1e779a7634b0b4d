"""A model that answers from a table of recorded answers: experiments on real answers without a network or a bill."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from toolorchestra.errors import UserError
from toolorchestra.messages import Message, ToolSpec
from toolorchestra.models.base import Completion, Sampling
from toolorchestra.pricing import Price, Usage, UsageError, usage_from_openai
from toolorchestra.trajectory import Charge

_LABEL = "Question:"
_MAX_LABELS = 8
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One recorded answer.

    Attributes:
        question: What was asked.
        answer: What the model said.
        sample: Number of the answer among those to the same question.
        usage: Its tokens, where recorded.
        cost_usd: Its dollars, where recorded; they go before tokens times price.
        latency_s: Its seconds; 0 where not recorded.
    """

    question: str
    answer: str
    sample: int = 0
    usage: Usage | None = None
    cost_usd: Decimal | None = None
    latency_s: float = 0.0


class RecordedModel:
    """A :class:`~toolorchestra.models.base.ChatModel` whose answers were given before.

    The question is looked up as the last user message, whole; else as the text after ``Question:`` in it, to its end or
    its line's end; else as its first line. The sample's number is ``Sampling.seed`` (0 where none is set); a question
    that was recorded once gives the same answer to every sample. Recorded seconds run on the virtual clock.
    """

    def __init__(self, name: str, answers: Sequence[RecordedAnswer], *, price: Price | None = None) -> None:
        """Index the answers.

        Args:
            name: For charges and reports.
            answers: The table.
            price: For answers with tokens and no dollars.

        Raises:
            UserError: Two answers have the same question and sample.
        """
        self._name = name
        self._price = price
        self._answers: dict[str, dict[int, RecordedAnswer]] = {}
        for answer in answers:
            samples = self._answers.setdefault(_key(answer.question), {})
            if answer.sample in samples:
                raise UserError(f"recorded model {name!r}: two answers for {_show(answer.question, answer.sample)}")
            samples[answer.sample] = answer

    @property
    def name(self) -> str:
        """The name that charges and reports use."""
        return self._name

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec] = (), sampling: Sampling = Sampling()
    ) -> Completion:
        """The recorded answer. It never calls tools.

        Raises:
            UserError: The table has no answer to this question or no such sample.
        """
        answer = self._find(messages, sampling.seed or 0)
        charge = self._charge(answer)
        return Completion(Message("assistant", answer.answer), (charge,), latency_s=answer.latency_s, model=self._name)

    def _find(self, messages: Sequence[Message], sample: int) -> RecordedAnswer:
        asked = next((message.content for message in reversed(messages) if message.role == "user"), "")
        candidates = (asked, *_parts(asked))
        samples = next((found for text in candidates if (found := self._answers.get(_key(text)))), None)
        if samples is None:
            raise UserError(
                f"recorded model {self._name!r} has no answer to {_show(asked, sample)}; record it, or leave "
                "the task out"
            )
        if sample not in samples and len(samples) > 1:
            raise UserError(
                f"recorded model {self._name!r} has no {_show(asked, sample)}, only samples "
                f"{', '.join(map(str, sorted(samples)))}; record it, or run fewer samples"
            )
        return samples[sample] if sample in samples else next(iter(samples.values()))

    def _charge(self, answer: RecordedAnswer) -> Charge:
        usd, price = answer.cost_usd, "recorded"
        if usd is None and self._price is not None and (answer.usage is not None or self._price.is_free):
            usd, price = self._price.cost(answer.usage, answer.latency_s), self._price.label
        note = "" if usd is not None else "neither dollars nor priced tokens were recorded"
        return Charge(self._name, usd, answer.latency_s, answer.usage, price if usd is not None else "", note)


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """A table as read.

    Attributes:
        answers: Its rows.
        dropped: What was left out, a line each (with ``blanks="drop"`` only).
    """

    answers: tuple[RecordedAnswer, ...]
    dropped: tuple[str, ...] = field(default=())


class _Row(BaseModel):
    """One line of a table, as written. Further keys are allowed: tables come from other programs."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    question: str = Field(min_length=1)
    answer: str = Field(validation_alias=AliasChoices("answer", "response"))
    sample: int = Field(default=0, ge=0)
    usage: dict[str, Any] | None = None
    cost_usd: Decimal | None = Field(default=None, ge=0, allow_inf_nan=False)
    latency_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    model: str = ""

    def recorded(self) -> RecordedAnswer:
        """The frozen form."""
        usage = None if self.usage is None else usage_from_openai(self.usage)
        return RecordedAnswer(self.question, self.answer, self.sample, usage, self.cost_usd, self.latency_s)


def read_recorded(path: Path, *, model: str | None = None, blanks: Literal["error", "drop"] = "error") -> RecordedTable:
    """Read a table of recorded answers.

    It is JSON Lines: ``question``, ``answer`` (or ``response``) and, where known, ``usage`` (as OpenAI has it),
    ``cost_usd``, ``latency_s``, ``sample``, ``score`` and ``model``.

    Args:
        path: The file.
        model: Whose rows to take, for a table with several models.
        blanks: What to do with rows whose answer, score or cost is there but blank: missing data that must not pass for
            a wrong answer or for free.

    Raises:
        UserError: The file is missing or has no rows, a row is malformed, blank (unless dropped) or stands there twice.
            The message names file, line and key.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such table of recorded answers. It is JSON Lines: question and answer a line")
    answers: list[RecordedAnswer] = []
    dropped: list[str] = []
    lines: dict[tuple[str, int], int] = {}
    models: set[str] = set()
    for number, value in _lines(path):
        where = f"{path}:{number}"
        if model is not None and value.get("model") != model:
            continue
        blank = _blank(value)
        if blank is not None:
            if blanks == "error":
                raise UserError(f"{where}: {blank} is blank: missing data. Remove the row, or read with blanks='drop'")
            dropped.append(f"{where}: {blank} is blank")
            continue
        row, answer = _read_row(value, where)
        models.add(row.model)
        key = (_key(row.question), row.sample)
        if model is None and len(models) > 1:
            raise UserError(f"{where}: the table has rows of several models ({', '.join(sorted(models))}); name one")
        if key in lines:
            raise UserError(f"{where}: {_show(row.question, row.sample)} stands on line {lines[key]} too")
        lines[key] = number
        answers.append(answer)
    if not answers:
        of = "" if model is None else f" of model {model!r}"
        raise UserError(f"{path}: the table has no usable rows{of}")
    return RecordedTable(tuple(answers), tuple(dropped))


def _lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(f"{path}:{number}: not valid JSON ({error}); write one JSON object a line") from None
            if not isinstance(value, Mapping):
                raise UserError(f"{path}:{number}: the line is no JSON object")
            yield number, value


def _blank(value: Mapping[str, Any]) -> str | None:
    for key in ("answer", "response", "score", "cost_usd"):
        if key in value and (value[key] is None or (isinstance(value[key], str) and not value[key].strip())):
            return key
    return None


def _read_row(value: Mapping[str, Any], where: str) -> tuple[_Row, RecordedAnswer]:
    try:
        row = _Row.model_validate(value)
        return row, row.recorded()
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "line"
        if first["type"] == "missing":
            raise UserError(f"{where}: the row has no {key!r}; every row needs question and answer") from None
        raise UserError(f"{where}: {key}: {first['msg']}") from None
    except UsageError as error:
        raise UserError(f"{where}: usage: {error}") from None


def _parts(text: str) -> Iterator[str]:
    """Where the question may stand in what surrounds it: after ``Question:``, else in the first line."""
    position = text.find(_LABEL)
    for _ in range(_MAX_LABELS):
        if position < 0:
            break
        rest = text[position + len(_LABEL) :]
        yield rest
        yield rest.strip().partition("\n")[0]
        position = text.find(_LABEL, position + 1)
    yield text.strip().partition("\n")[0]


def _key(question: str) -> str:
    return " ".join(question.split())


def _show(question: str, sample: int) -> str:
    text = _key(question)
    return f"{text if len(text) <= _SHOWN else text[:_SHOWN] + '…'!r} (sample {sample})"
