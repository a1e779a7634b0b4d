"""Cascades: ask cheap models first and dearer ones only where the cheap do not do.

The two classic rules: escalate while the answer looks unsure (FrugalGPT, arXiv 2305.05176), and escalate while the
answers disagree (LLM cascades with mixture of thought, arXiv 2310.03094).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolorchestra.messages import Message, ToolSpec
from toolorchestra.policies.base import Policy
from toolorchestra.policies.scripted.arguments import fill_arguments
from toolorchestra.policies.scripted.moves import Result, call_tools, finish, on_offer, results
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Action

Order = Callable[[Task], Sequence[str]]
"""The tools to ask for a task, cheapest first. Names that are not on offer are passed over."""

_UNSURE = re.compile(
    r"\b(?:(?:do not|don['’]t|cannot|can['’]t) (?:know|tell|answer|determine|say)|not (?:sure|certain)|"
    r"unsure|uncertain|cannot be determined)\b|\A\W*(?:unknown|no answer|n/a|none)\W*\Z",
    re.IGNORECASE,
)
_FAILED = re.compile(r"\s*\[?error\b\s*[:\]]", re.IGNORECASE)
_LOOKED_AT = 2_000


def looks_unsure(answer: str) -> bool:
    """Whether an answer is empty or admits that it does not know."""
    return not answer.strip() or _UNSURE.search(answer[:_LOOKED_AT]) is not None


def looks_failed(answer: str) -> bool:
    """Whether a tool's result is a failure: the environments put ``Error:`` before it."""
    return _FAILED.match(answer[:_LOOKED_AT]) is not None


def same_answer(one: str, other: str) -> bool:
    """Whether two answers are the same but for case, spacing, outer punctuation and a leading "the answer is"."""
    return _core(one) == _core(other) != ""


@dataclass(frozen=True, slots=True)
class CheapestFirst:
    """Asks the cheapest model, and the next one as long as the answer is unsure or the call failed.

    Attributes:
        order: The models to ask, cheapest first.
        unsure: Whether an answer calls for the next model.
        failed: Whether a result is a failure: never submitted while there is another one.
        name: For trajectories and reports.
    """

    order: Order
    unsure: Callable[[str], bool] = looks_unsure
    failed: Callable[[str], bool] = looks_failed
    name: str = "cheapest first"

    def episode(self, task: Task, sample: int) -> Policy:
        """The policy of one episode."""
        return _CheapestFirstEpisode(self, tuple(self.order(task)), task.question)


@dataclass(frozen=True, slots=True)
class _CheapestFirstEpisode:
    rule: CheapestFirst
    order: tuple[str, ...]
    question: str

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        found = results(history)
        doubtful = not found or self.rule.failed(found[-1].content) or self.rule.unsure(found[-1].content)
        following = _next(self.order, len(found), tools)
        if doubtful and following is not None:
            return _ask(history, [following], self.question)
        return finish(history, tools, choose=_last_good(found, self.rule.failed))


@dataclass(frozen=True, slots=True)
class Agreement:
    """Asks the two cheapest models at once; while no two answers agree, it asks the next one.

    Attributes:
        order: The models to ask, cheapest first. If none agree, the last one's answer stands.
        same: Whether two answers agree.
        unsure: An unsure answer agrees with nothing.
        failed: Nor does a failure.
        name: For trajectories and reports.
    """

    order: Order
    same: Callable[[str, str], bool] = same_answer
    unsure: Callable[[str], bool] = looks_unsure
    failed: Callable[[str], bool] = looks_failed
    name: str = "agreement"

    def episode(self, task: Task, sample: int) -> Policy:
        """The policy of one episode."""
        return _AgreementEpisode(self, tuple(self.order(task)), task.question)


@dataclass(frozen=True, slots=True)
class _AgreementEpisode:
    rule: Agreement
    order: tuple[str, ...]
    question: str

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        found = results(history)
        agreed = self._agreed(found)
        if agreed is not None:
            return finish(history, tools, choose=agreed)
        wanted = 1 if found else 2
        following = [_next(self.order, len(found) + ahead, tools) for ahead in range(wanted)]
        specs = [spec for spec in following if spec is not None]
        if specs:
            return _ask(history, specs, self.question)
        return finish(history, tools, choose=_last_good(found, self.rule.failed))

    def _agreed(self, found: Sequence[Result]) -> int | None:
        """The number of the first answer that agrees with an earlier one."""
        rule = self.rule
        usable = [result for result in found if not rule.failed(result.content) and not rule.unsure(result.content)]
        for index, later in enumerate(usable):
            if any(rule.same(earlier.content, later.content) for earlier in usable[:index]):
                return later.number
        return None


def _next(order: Sequence[str], asked: int, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    offered = on_offer(tools)
    usable = [offered[name] for name in order if name in offered]
    return usable[asked] if asked < len(usable) else None


def _ask(history: Sequence[Message], specs: Sequence[ToolSpec], question: str) -> Action:
    return call_tools(history, [(spec.name, fill_arguments(spec, question)) for spec in specs])


def _last_good(found: Sequence[Result], failed: Callable[[str], bool]) -> int | None:
    return max((result.number for result in found if not failed(result.content)), default=None)


def _core(answer: str) -> str:
    text = " ".join(answer.lower().split())
    return re.sub(r"^(?:the )?(?:final )?answer(?: is)?\s*:?\s*", "", text).strip(" .!\"'*`")
