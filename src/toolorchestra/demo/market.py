"""The embedded market: every task's tools at that task's names, prices and speeds, offline and on a virtual clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from toolorchestra.demo.offers import Offer
from toolorchestra.demo.roles import ROLES, SIMULATED, Profile
from toolorchestra.demo.setting import Setting
from toolorchestra.demo.tools import Expression, Passages, corpus_index
from toolorchestra.environments.qa import QuestionEnvironment
from toolorchestra.judges import make_judge
from toolorchestra.models.simulated import AnswerKey, Candour, KeyEntry, SimulatedModel, read_statement
from toolorchestra.pricing import Price
from toolorchestra.tasks import Task
from toolorchestra.tools import CodeInterpreter, ModelTool, Tool
from toolorchestra.tools.code import MontyBackend

_NUMBER = re.compile(r"^\[\d+\] ")


class Market:
    """Makes the environments of demo tasks. One market serves any number of episodes at once.

    Args:
        submit: Whether results are submitted by number (for a policy that only chooses), besides answers in text.
        candour: How often the simulated models say that they are not sure.
        sandbox_workers: Processes of the calculator's sandbox.
    """

    def __init__(self, *, submit: bool = True, candour: Candour | None = None, sandbox_workers: int = 1) -> None:
        self._submit = submit
        self._candour = candour or Candour()
        self._index = corpus_index()
        # An expression has one value, so each is computed once.
        self._interpreter = CodeInterpreter(MontyBackend(workers=sandbox_workers), memo=True, latency_s=0.0)

    def environment(self, task: Task, sample: int) -> QuestionEnvironment:
        """The environment of one episode.

        Raises:
            UserError: The task is none of the demo's.
        """
        setting = Setting.read(task)
        key = AnswerKey([_entry(task, setting)])
        tools = [self._tool(offer, setting, key, task.question) for offer in setting.offers]
        return QuestionEnvironment(
            task,
            tools,
            make_judge(task.judge),
            submit=self._submit,
            sample=sample,
            read_answer=bare_answer,
        )

    def close(self) -> None:
        """Stop the calculator's sandbox."""
        self._interpreter.close()

    def _tool(self, offer: Offer, setting: Setting, key: AnswerKey, question: str) -> Tool:
        usd, latency_s = offer.usd_per_call, offer.latency_s
        profile = ROLES[offer.role].profile
        if profile is not None:
            model = self._model(offer, profile, setting, key)
            return ModelTool(offer.name, model, offer.description, prompt="", takes_question=False)
        if offer.role == "search":
            return Passages(offer.name, offer.description, self._index, usd, latency_s)
        return Expression(offer.name, offer.description, self._interpreter, question, usd, latency_s)

    def _model(self, offer: Offer, profile: Profile, setting: Setting, key: AnswerKey) -> SimulatedModel:
        multiplier = Decimal(offer.multiplier)
        price = Price(profile.price.input * multiplier, profile.price.output * multiplier, source=SIMULATED)
        return SimulatedModel(
            offer.name,
            profile.skills,
            price,
            offer.latency_s,
            profile.output_tokens,
            key,
            seed=setting.seed,
            candour=self._candour,
        )


def roles(task: Task) -> Mapping[str, str]:
    """The role of every tool on offer in a task, by the tool's name."""
    return {offer.name: offer.role for offer in Setting.read(task).offers}


def price_per_call(task: Task) -> Mapping[str, Decimal]:
    """Dollars of one call of every tool on offer in a task, at the nominal length of a prompt."""
    return {offer.name: offer.usd_per_call for offer in Setting.read(task).offers}


def unsure(text: str) -> bool:
    """Whether a model of the market said that it is not sure; with or without the number of its result."""
    return not read_statement(_NUMBER.sub("", text)).sure


def bare_answer(text: str) -> str:
    """The answer alone, without the words about how sure the model is."""
    return read_statement(text).answer.strip()


def _entry(task: Task, setting: Setting) -> KeyEntry:
    evidence = () if setting.evidence is None else (setting.evidence,)
    return KeyEntry(task.question, task.answer, task.kind, setting.distractors, evidence)
