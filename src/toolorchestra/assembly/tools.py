"""Tools by name: their settings → what the orchestrator is offered, with price and seconds in the description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from toolorchestra.assembly.models import ModelOffer
from toolorchestra.config import CodeToolSettings, ModelToolSettings, SearchToolSettings
from toolorchestra.models import Sampling
from toolorchestra.pricing import Price
from toolorchestra.tasks import Task
from toolorchestra.tools import CodeInterpreter, CodeLimits, Fee, LocalSearch, ModelTool, Tool, choose_backend
from toolorchestra.tools.describe import describe_tool

MakeTool = Callable[[Task, int], Tool]
"""Makes the tool of one episode from its task and sample."""

_TYPICAL_S = Decimal(1)


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool by name.

    Attributes:
        make: Makes the tool of one episode.
        usd_per_call: For a model, dollars of a typical call; ``None`` for other tools.
        model: For a model, its key under ``models``.
        close: Stops what the tool keeps running, where it does.
    """

    make: MakeTool
    usd_per_call: Decimal | None = None
    model: str | None = None
    close: Callable[[], None] | None = None


def model_tool(name: str, settings: ModelToolSettings, offer: ModelOffer, *, rewords: bool) -> ToolOffer:
    """A model as a tool.

    Args:
        name: The tool's name.
        settings: Its section.
        offer: The model.
        rewords: Whether the orchestrator may ask in its own words, where the model can understand them.
    """
    ability = settings.description or offer.description or f"Asks the language model {settings.model}"

    def make(task: Task, sample: int) -> Tool:
        # What is recorded or simulated tells samples apart by the seed; a real server draws anew by itself.
        sampling = None if offer.understands else Sampling(seed=sample)
        return ModelTool(
            name,
            offer.make(task),
            ability,
            sampling=sampling,
            takes_question=rewords and offer.understands,
            usd_per_call=offer.usd_per_call,
            latency_s=offer.latency_s,
        )

    return ToolOffer(make, offer.usd_per_call, settings.model)


def code_tool(name: str, settings: CodeToolSettings, price: Price) -> CodeInterpreter:
    """The code interpreter, in the best sandbox of this machine.

    Raises:
        UserError: Nothing here can isolate code.
    """
    backend = choose_backend()
    limits = CodeLimits(wall_s=settings.seconds, memory_mb=settings.memory_mb)
    plain = CodeInterpreter(backend, limits, name=name)
    described = _with_price(settings.description or plain.spec.description, price)
    return CodeInterpreter(backend, limits, name=name, description=described, fee=_fee(price))


def search_tool(name: str, settings: SearchToolSettings, price: Price, *, rewords: bool) -> LocalSearch:
    """Search over a folder.

    Args:
        name: The tool's name.
        settings: Its section.
        price: What a call costs.
        rewords: Whether the orchestrator writes the query; else the task's question is it.

    Raises:
        UserError: The folder is missing, empty or unreadable.
    """
    ability = settings.description or (
        f"Searches the texts of the folder {settings.folder.name} by keywords and returns the best passages with their "
        "sources."
    )
    return LocalSearch.from_folder(
        settings.folder,
        name=name,
        description=_with_price(ability, price),
        top_k=settings.results,
        query_from_question=not rewords,
        fee=_fee(price),
    )


def fixed(tool: Tool, *, close: Callable[[], None] | None = None) -> ToolOffer:
    """A tool that every episode shares."""
    return ToolOffer(lambda task, sample: tool, close=close)


def cheapest_first(offers: Mapping[str, ToolOffer]) -> tuple[str, ...]:
    """The tools that are models, the cheapest first."""
    priced = [(offer.usd_per_call, name) for name, offer in offers.items() if offer.usd_per_call is not None]
    return tuple(name for _, name in sorted(priced))


def _with_price(ability: str, price: Price) -> str:
    return describe_tool(ability, usd_per_call=price.cost(None, _TYPICAL_S))


def _fee(price: Price) -> Fee | None:
    return None if price.is_free else lambda seconds: price.cost(None, seconds)
