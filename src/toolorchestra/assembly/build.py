"""Settings → live objects, all checked before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from toolorchestra.assembly.models import Answers, ModelOffer, make_offer
from toolorchestra.assembly.orchestrator import orchestrator_endpoint, token_policy
from toolorchestra.assembly.prices import Prices, find_prices
from toolorchestra.assembly.rules import baselines, is_rule, make_rule
from toolorchestra.assembly.tasks import NoAnswerJudge, adopt_preference, check_task
from toolorchestra.assembly.tools import ToolOffer, cheapest_first, code_tool, fixed, model_tool, search_tool
from toolorchestra.config import CodeToolSettings, ModelToolSettings, Settings
from toolorchestra.environments.qa import SUBMIT, QuestionEnvironment
from toolorchestra.errors import UserError
from toolorchestra.judges import Judge, make_judge
from toolorchestra.limits import Limits
from toolorchestra.models import ChatEndpoint, SessionPool
from toolorchestra.models.simulated import read_statement
from toolorchestra.parsing import check_spec
from toolorchestra.policies import ChatPolicy, PolicyFactory
from toolorchestra.preferences import Preference
from toolorchestra.tasks import Task
from toolorchestra.tools import Tool
from toolorchestra.trajectory import ORCHESTRATOR

_PROBE = Task("probe", "What is 1 + 1?", "2")
"""A task that nobody is asked: tools are made for it once, so that a fault shows before any work starts."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """Everything that a configuration describes, ready to work. Made by :func:`build`.

    Use it as ``async with`` in the loop that calls models, or call :meth:`close` where there was none.

    Attributes:
        settings: The configuration.
        prices: What everything costs.
        limits: Of every episode.
        preference: The configuration's wish, for tasks that have none of their own.
        tools: What is on offer, by name.
    """

    settings: Settings
    prices: Prices
    limits: Limits
    preference: Preference
    tools: Mapping[str, ToolOffer]
    _models: Mapping[str, ModelOffer]
    _endpoint: ChatEndpoint | None
    _connections: SessionPool
    _seed: int

    @property
    def models_by_price(self) -> tuple[str, ...]:
        """The tools that are models, the cheapest first."""
        return cheapest_first(self.tools)

    @property
    def submits(self) -> bool:
        """Whether results are submitted by number, for an orchestrator that only chooses."""
        return self.settings.orchestrator.constrained

    def policy_factory(self) -> PolicyFactory:
        """Who orchestrates. A model in a folder is loaded by this call, which takes seconds.

        Raises:
            UserError: There is no such model or rule.
        """
        settings = self.settings.orchestrator
        if self._endpoint is not None:
            return ChatPolicy(self._endpoint, label=ORCHESTRATOR)
        if is_rule(settings):
            return make_rule(
                settings.model, cheapest_first=self.models_by_price, tools=tuple(self.tools), seed=self._seed
            )
        return token_policy(settings, self.prices.orchestrator, self._seed)

    def baselines(self, wanted: str = "all") -> tuple[PolicyFactory, ...]:
        """The fixed rules to compare with: ``all``, ``none`` or names with commas between them.

        Raises:
            UserError: There is no such rule, or it cannot work with these tools.
        """
        return baselines(wanted, cheapest_first=self.models_by_price, tools=tuple(self.tools), seed=self._seed)

    def prepare(self, tasks: Sequence[Task]) -> tuple[Task, ...]:
        """The tasks as they will be asked: with the configuration's preference where they have none of their own.

        Raises:
            UserError: A task names a tool or judge that there is not, or a recorded model has no answer to it.
        """
        judged = {self._judge_name(task) for task in tasks}
        if "model" in judged and self.settings.judge.model is None:
            raise UserError(
                "judge.model is missing, and tasks are to be judged by a model: name one of the models, or give those "
                "tasks another judge"
            )
        for task in tasks:
            check_task(task, tuple(self.tools), self._judge_name(task))
        for name, offer in self.tools.items():
            if offer.model is not None:
                asked = (task for task in tasks if task.tools is None or name in task.tools)
                self._models[offer.model].check_tasks(offer.model, asked)
        return tuple(adopt_preference(task, self.preference) for task in tasks)

    def question(self, text: str, words: str | None = None) -> Task:
        """A question to answer now: nobody knows the right answer, so its outcome is not judged.

        Args:
            text: The question.
            words: A wish in words, instead of the configuration's.

        Raises:
            UserError: The question is empty.
        """
        if not text.strip():
            raise UserError('the question is empty; write it in quotes: toolorchestra run "What is …?"')
        wish = self.preference if words is None else replace(self.preference, text=words)
        return Task("question", text.strip(), answer="", preference=wish)

    def make_environment(self, task: Task, sample: int) -> QuestionEnvironment:
        """The environment of one episode.

        Raises:
            UserError: The task names a tool or judge that there is not.
        """
        names = self.tools if task.tools is None else task.tools
        check_task(task, tuple(self.tools), self._judge_name(task))
        return QuestionEnvironment(
            task,
            [self.tools[name].make(task, sample) for name in names],
            self._judge(task),
            submit=self.submits,
            sample=sample,
            read_answer=self._reader(),
        )

    async def aclose(self) -> None:
        """Close what was opened in the running loop, and everything else."""
        for connections in (self._connections, *(offer.connections for offer in self._models.values())):
            if connections is not None:
                await connections.aclose()
        self.close()

    def close(self) -> None:
        """Stop the sandboxes that are kept warm."""
        for offer in self.tools.values():
            if offer.close is not None:
                offer.close()

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.aclose()

    def _judge_name(self, task: Task) -> str:
        kind = self.settings.judge.kind
        return task.judge if kind == "task" else kind

    def _judge(self, task: Task) -> Judge:
        if not task.answer:
            return NoAnswerJudge()
        name = self.settings.judge.model
        model = None if name is None else self._models[name].make(task)
        return make_judge(self._judge_name(task), model)

    def _reader(self) -> Callable[[str], str]:
        """Simulated models put their answer in words about how sure they are, which no judge is to compare."""
        simulated = any(offer.simulated for offer in self._models.values())
        return _bare if simulated else str.strip


def build(settings: Settings, *, tasks: Sequence[Task] = (), tools: Sequence[Tool] = (), seed: int = 0) -> Assembly:
    """Make everything that a configuration describes. Nothing is sent, and no model is loaded.

    Args:
        settings: The configuration.
        tasks: What simulated models know besides the task that they are asked.
        tools: Further tools of one's own, offered besides those of the configuration.
        seed: Of the random rule and of a local model's sampling.

    Raises:
        UnpricedModelError: A model or tool has no price.
        UserError: A key's variable is not set, a file or sandbox is missing, a tool's schema is no JSON Schema, or two
            tools have one name.
    """
    prices = find_prices(settings)
    answers = Answers(tasks)
    models = {name: make_offer(name, model, prices.models[name], answers) for name, model in settings.models.items()}
    offers = _tool_offers(settings, prices, models)
    for tool in tools:
        if tool.spec.name in offers:
            raise UserError(f"two tools are called {tool.spec.name!r}; rename one of them")
        offers[tool.spec.name] = fixed(tool)
    for name, offer in offers.items():
        if name in (SUBMIT, ORCHESTRATOR):
            raise UserError(f"tools.{name}: this name is taken by the program itself; rename the tool")
        check_spec(offer.make(_PROBE, 0).spec)
    connections = SessionPool(settings.orchestrator.concurrency)
    return Assembly(
        settings,
        prices,
        Limits(**settings.limits.model_dump()),
        Preference.from_json(settings.preference.model_dump()),
        offers,
        models,
        orchestrator_endpoint(settings.orchestrator, prices.orchestrator, connections),
        connections,
        seed,
    )


def _tool_offers(settings: Settings, prices: Prices, models: Mapping[str, ModelOffer]) -> dict[str, ToolOffer]:
    # An orchestrator that only chooses words no questions: its tools take the task's.
    rewords = not settings.orchestrator.constrained
    offers: dict[str, ToolOffer] = {}
    for name, tool in settings.tools.items():
        if isinstance(tool, ModelToolSettings):
            offers[name] = model_tool(name, tool, models[tool.model], rewords=rewords)
        elif isinstance(tool, CodeToolSettings):
            interpreter = code_tool(name, tool, prices.tools[name])
            offers[name] = fixed(interpreter, close=interpreter.close)
        else:
            offers[name] = fixed(search_tool(name, tool, prices.tools[name], rewords=rewords))
    return offers


def _bare(text: str) -> str:
    return read_statement(text).answer.strip()
