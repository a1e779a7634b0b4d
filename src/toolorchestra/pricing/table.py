"""Which price holds for a model: rows of one's own first, then the base table. None of them: an error, never $0."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from toolorchestra.errors import UserError
from toolorchestra.pricing.price import Price, price_from_row


class UnpricedModelError(UserError):
    """A model has no price. Its cost is unknown, and unknown is not $0."""


class PriceTable:
    """Prices by model name.

    Args:
        rows: Prices of one's own, by ``model`` or ``provider:model``; they win over the base.
        base: The table to fall back on; ``None`` for none.
        at: The moment whose prices hold in the base, fixed so that a run has one price all the way; now by default.
    """

    def __init__(
        self,
        rows: Mapping[str, Price] | None = None,
        base: Literal["genai-prices"] | None = "genai-prices",
        at: dt.datetime | None = None,
    ) -> None:
        self._rows = dict(rows or {})
        self._base = base
        self._at = at or dt.datetime.now(dt.UTC)

    def price(self, model: str, provider: str | None = None) -> Price:
        """The price of a model.

        Args:
            model: Its name; ``provider:model`` names the provider too.
            provider: Who serves it: the same model has another price elsewhere.

        Raises:
            UnpricedModelError: Neither a row nor the base has one. The message has the nearest known names and the fix.
        """
        names = [model] if provider is None else [f"{provider}:{model}", f"{provider}/{model}", model]
        for name in names:
            if name in self._rows:
                return self._rows[name]
        price = self._from_base(model, provider)
        if price is None:
            raise UnpricedModelError(self._unpriced(model, provider))
        return price

    def _from_base(self, model: str, provider: str | None) -> Price | None:
        if self._base is None:
            return None
        # Loading the table takes half a second: only for who asks it.
        from toolorchestra.pricing.genai import find

        return find(model, provider, self._at)

    def _unpriced(self, model: str, provider: str | None) -> str:
        where = "" if provider is None else f" of the provider {provider!r}"
        near = self._nearest(model)
        known = f" Nearest names with a price: {', '.join(near)}." if near else ""
        return (
            f"no price is known for the model {model!r}{where}, and an unknown price is not $0.{known} Give it one "
            "(dollars for a million tokens), at its `price:` or in the price file (prices.override): "
            f"`{model}: {{input: …, output: …}}`; where it costs nothing, say so: `{model}: {{free: true}}`"
        )

    def _nearest(self, model: str) -> list[str]:
        names = {name.lower(): name for name in self._rows}
        if self._base is not None:
            from toolorchestra.pricing.genai import known_names

            for full in known_names():
                names.setdefault(full.lower(), full)
                names.setdefault(full.partition(":")[2].lower(), full)
        close = difflib.get_close_matches(model.lower(), names, n=6, cutoff=0.6)
        return list(dict.fromkeys(names[name] for name in close))[:3]


def read_prices(path: Path) -> dict[str, Price]:
    """Read a price file: YAML, a row a model, as in ``gpt-5: {input: 1.25, output: 10, date: 2026-01-31}``.

    Amounts are read as written, never through binary fractions.

    Raises:
        UserError: The file cannot be read, or a row is wrong. A line for each problem names row, key and fix.
    """
    # Pydantic's part of the configuration is heavy; whoever only bills need not load it.
    from pydantic import TypeAdapter, ValidationError

    from toolorchestra.config import PriceRow, explain, read_yaml

    document = read_yaml(path)
    if not isinstance(document.values, dict):
        raise UserError(f"{path}: no prices; write a row a model: `gpt-5: {{input: 1.25, output: 10}}`")
    try:
        rows = TypeAdapter(dict[str, PriceRow]).validate_python(document.values)
    except ValidationError as error:
        raise explain(error, document) from None
    return {name: price_from_row(row, source=path.name) for name, row in rows.items()}
