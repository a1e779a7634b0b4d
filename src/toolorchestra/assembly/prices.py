"""What everything in a configuration costs, found before any work starts: an unknown price is an error, never $0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from toolorchestra.assembly.rules import is_rule
from toolorchestra.config import (
    ChatModelSettings,
    CodeToolSettings,
    ModelSettings,
    OrchestratorSettings,
    PriceRow,
    RecordedModelSettings,
    SearchToolSettings,
    Settings,
)
from toolorchestra.models import read_recorded
from toolorchestra.pricing import Price, PriceTable, UnpricedModelError, price_from_row, read_prices
from toolorchestra.trajectory import ORCHESTRATOR

FREE = Price(source="free")


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a configuration.

    Attributes:
        orchestrator: Of the orchestrator's own tokens.
        models: By model; ``None`` for a recorded one whose every answer has its own dollars.
        tools: By tool, for the tools that are no models.
    """

    orchestrator: Price
    models: Mapping[str, Price | None]
    tools: Mapping[str, Price]

    def to_json(self) -> dict[str, Any]:
        """The amounts, for a run's record.

        Without source and day, which stand on every charge: a run may go on tomorrow if the prices have not changed.
        """
        everything = {ORCHESTRATOR: self.orchestrator, **self.models, **self.tools}
        return {name: None if price is None else _amounts(price) for name, price in everything.items()}


def open_table(settings: Settings) -> PriceTable:
    """The price table that the configuration names.

    Raises:
        UserError: The file of prices cannot be read.
    """
    rows = {} if settings.prices.override is None else read_prices(settings.prices.override)
    return PriceTable(rows, settings.prices.base)


def find_prices(settings: Settings) -> Prices:
    """The price of everything.

    Raises:
        UnpricedModelError: A model or tool has none. The message names it and the fix.
    """
    table = open_table(settings)
    return Prices(
        orchestrator_price(settings.orchestrator, table),
        {name: model_price(name, model, table) for name, model in settings.models.items()},
        {
            name: tool_price(name, tool)
            for name, tool in settings.tools.items()
            if isinstance(tool, (CodeToolSettings, SearchToolSettings))
        },
    )


def orchestrator_price(settings: OrchestratorSettings, table: PriceTable) -> Price:
    """What the orchestrator's own tokens cost. A fixed rule has none.

    Raises:
        UnpricedModelError: It is not known.
    """
    if is_rule(settings):
        return FREE
    if settings.price is not None:
        return _stated(settings.price, ORCHESTRATOR)
    if settings.base_url is not None or settings.price_name is not None:
        return _looked_up(ORCHESTRATOR, settings.price_name or settings.model, table)
    raise UnpricedModelError(
        f"{ORCHESTRATOR}: no price is stated for the model {settings.model}, and an unknown price is not $0. Give it "
        "one (dollars for a million tokens): `price: {input: …, output: …}`; where it costs nothing, say so: "
        "`price: {free: true}`"
    )


def model_price(name: str, model: ModelSettings, table: PriceTable) -> Price | None:
    """What a model costs; ``None`` for a recorded one whose every answer has its own dollars.

    Raises:
        UnpricedModelError: It is not known.
        UserError: A table of recorded answers cannot be read.
    """
    where = f"models.{name}"
    if model.price is not None:
        return _stated(model.price, where)
    if isinstance(model, ChatModelSettings):
        return _looked_up(where, model.price_name or model.model or name, table)
    if isinstance(model, RecordedModelSettings) and all(
        answer.cost_usd is not None for answer in read_recorded(model.path).answers
    ):
        return None
    return _looked_up(where, getattr(model, "price_name", None) or name, table)


def tool_price(name: str, tool: CodeToolSettings | SearchToolSettings) -> Price:
    """What a tool that runs here costs: nothing, unless its section says otherwise."""
    return FREE if tool.price is None else _stated(tool.price, f"tools.{name}")


def _stated(row: PriceRow, where: str) -> Price:
    return price_from_row(row, source=f"stated at {where}")


def _looked_up(where: str, name: str, table: PriceTable) -> Price:
    try:
        return table.price(name)
    except UnpricedModelError as error:
        raise UnpricedModelError(f"{where}: {error}") from None


def _amounts(price: Price) -> dict[str, Any]:
    return dict(_set_fields(price))


def _set_fields(price: Price) -> Iterator[tuple[str, Any]]:
    for field in fields(price):
        value = getattr(price, field.name)
        if field.name in ("source", "date") or not value:
            continue
        if field.name == "tiers":
            value = [{part.name: getattr(tier, part.name) for part in fields(tier)} for tier in value]
        yield field.name, value
