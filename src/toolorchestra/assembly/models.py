"""Models by name: their settings and prices → something that answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlsplit

from toolorchestra.config import (
    ChatModelSettings,
    Endpoint,
    ModelSettings,
    RecordedModelSettings,
    SimulatedModelSettings,
)
from toolorchestra.errors import UserError
from toolorchestra.models import (
    ChatEndpoint,
    ChatModel,
    ChatOptions,
    RecordedAnswer,
    RecordedModel,
    Retries,
    Sampling,
    SessionPool,
    SimulatedModel,
    read_recorded,
)
from toolorchestra.models.simulated import AnswerKey, KeyEntry
from toolorchestra.pricing import Price, Usage
from toolorchestra.tasks import Task

PROMPT_TOKENS = 300
"""Tokens of the prompt of a typical call, for the price that the orchestrator is told."""

_MAX_DISTRACTORS = 8
_MAX_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """A model, ready to be made into a tool or a judge.

    Attributes:
        make: The model for a task. Only a simulated one differs by task: it must know what is right.
        usd_per_call: Dollars of a typical call.
        latency_s: Seconds of a typical call, where known.
        description: What it is good at.
        understands: Whether it can be asked in other words than the task's; a table and a simulation cannot.
        simulated: Whether it is a simulation.
        answers: For a recorded model, the questions that it can answer (single-spaced).
        connections: What to close in the end, where it has any.
    """

    make: Callable[[Task], ChatModel]
    usd_per_call: Decimal
    latency_s: float | None
    description: str
    understands: bool = False
    simulated: bool = False
    answers: frozenset[str] | None = None
    connections: SessionPool | None = None

    def check_tasks(self, name: str, tasks: Iterable[Task]) -> None:
        """Check that a recorded model has an answer to every task.

        Raises:
            UserError: It has none to some. The message names the model and the first of them.
        """
        if self.answers is None:
            return
        lacking = [task.id for task in tasks if " ".join(task.question.split()) not in self.answers]
        if lacking:
            shown = ", ".join(map(repr, lacking[:_MAX_SHOWN])) + (", …" if len(lacking) > _MAX_SHOWN else "")
            raise UserError(
                f"models.{name}: no recorded answer to {len(lacking)} of the tasks ({shown}); record them, or take "
                "those tasks out"
            )


class Answers:
    """What is right, for simulated models: the task's own answer, or that of a known task with the same question."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._by_question = {task.question: task for task in tasks}
        self._by_kind: dict[str, list[str]] = {}
        for task in tasks:
            self._by_kind.setdefault(task.kind, []).append(task.answer)

    def key(self, task: Task) -> AnswerKey:
        """The key that holds the task's question; an empty one where nobody knows the answer."""
        known = task if task.answer else self._by_question.get(task.question)
        if known is None:
            return AnswerKey([])
        evidence = _texts(known, "evidence")
        return AnswerKey([KeyEntry(known.question, known.answer, known.kind, self._wrong(known), evidence)])

    def _wrong(self, task: Task) -> tuple[str, ...]:
        """Plausible wrong answers: the task's own, else those that are right elsewhere."""
        stated = _texts(task, "distractors")
        right = {task.answer, *task.aliases}
        others = dict.fromkeys(answer for answer in self._by_kind.get(task.kind, ()) if answer not in right)
        return stated or tuple(others)[:_MAX_DISTRACTORS]


def make_offer(name: str, settings: ModelSettings, price: Price | None, answers: Answers) -> ModelOffer:
    """Make a model of its settings.

    Args:
        name: Its key, for charges and reports.
        settings: Its section.
        price: What it costs; ``None`` for a recorded one whose every answer has its own dollars.
        answers: What is right, for a simulated one.

    Raises:
        UserError: A key's variable is not set, or a table cannot be read.
    """
    if isinstance(settings, RecordedModelSettings):
        return _recorded(name, settings, price)
    if price is None:
        raise UserError(f"models.{name}: no price is known; give it one with `price:`")
    if isinstance(settings, SimulatedModelSettings):
        return _simulated(name, settings, price, answers)
    return _chat(name, settings, price)


def make_endpoint(
    name: str, settings: Endpoint, model: str, base_url: str, price: Price, connections: SessionPool
) -> ChatEndpoint:
    """The client of a chat endpoint.

    Raises:
        UserError: The key's variable is not set.
    """
    return ChatEndpoint(
        name,
        model,
        base_url,
        price=price,
        api_key_env=settings.api_key_env,
        timeout_s=settings.timeout_s,
        retries=Retries(attempts=1 + settings.retries),
        pool=connections,
        options=ChatOptions(
            sampling=Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens),
            max_tokens_key=_max_tokens_key(base_url),
        ),
    )


def _chat(name: str, settings: ChatModelSettings, price: Price) -> ModelOffer:
    connections = SessionPool(settings.concurrency)
    endpoint = make_endpoint(name, settings, settings.model or name, settings.base_url, price, connections)
    usage = Usage(PROMPT_TOKENS, settings.output_tokens)
    return ModelOffer(
        lambda task: endpoint,
        price.cost(usage, settings.seconds or 0.0),
        settings.seconds,
        settings.description,
        understands=True,
        connections=connections,
    )


def _simulated(name: str, settings: SimulatedModelSettings, price: Price, answers: Answers) -> ModelOffer:
    def make(task: Task) -> ChatModel:
        return SimulatedModel(
            name,
            settings.skills,
            price,
            settings.seconds,
            settings.output_tokens,
            answers.key(task),
            seed=settings.seed,
            per_sample=True,
        )

    usd = price.cost(Usage(PROMPT_TOKENS, settings.output_tokens), settings.seconds)
    return ModelOffer(make, usd, settings.seconds, settings.description, simulated=True)


def _recorded(name: str, settings: RecordedModelSettings, price: Price | None) -> ModelOffer:
    table = read_recorded(settings.path).answers
    model = RecordedModel(name, table, price=price)
    seconds = sum(answer.latency_s for answer in table) / len(table)
    return ModelOffer(
        lambda task: model,
        sum((_recorded_usd(answer, price) for answer in table), Decimal(0)) / len(table),
        seconds or None,
        settings.description,
        answers=frozenset(" ".join(answer.question.split()) for answer in table),
    )


def _recorded_usd(answer: RecordedAnswer, price: Price | None) -> Decimal:
    if answer.cost_usd is not None:
        return answer.cost_usd
    return Decimal(0) if price is None else price.cost(answer.usage, answer.latency_s)


def _max_tokens_key(base_url: str) -> str:
    """OpenAI's own reasoning models refuse ``max_tokens``; many other servers know nothing else."""
    return "max_completion_tokens" if urlsplit(base_url).hostname == "api.openai.com" else "max_tokens"


def _texts(task: Task, key: str) -> tuple[str, ...]:
    """A list of texts from a task's setting; empty where it is not one."""
    value = task.setting.get(key, ())
    if isinstance(value, Mapping) or not isinstance(value, (list, tuple)):
        return ()
    return tuple(item for item in value if isinstance(item, str))
