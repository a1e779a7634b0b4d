"""A judge by its name in a task file."""

from __future__ import annotations

import difflib

from toolorchestra.errors import UserError
from toolorchestra.judges.base import Judge
from toolorchestra.judges.exact import ExactJudge
from toolorchestra.judges.mathematical import MathJudge
from toolorchestra.judges.model import ModelJudge
from toolorchestra.judges.number import NumberJudge
from toolorchestra.models.base import ChatModel

JUDGES = ("exact", "number", "math", "model")
"""The names that :func:`make_judge` knows."""


def make_judge(name: str, model: ChatModel | None = None) -> Judge:
    """Make the judge of this name.

    Args:
        name: ``exact``, ``number``, ``math`` or ``model``.
        model: Who judges, for ``model``.

    Raises:
        UserError: There is no such judge, or ``model`` lacks a model.
    """
    if name == "exact":
        return ExactJudge()
    if name == "number":
        return NumberJudge()
    if name == "math":
        return MathJudge()
    if name != "model":
        near = difflib.get_close_matches(name[:40], JUDGES, n=1)
        meant = f"; did you mean {near[0]}?" if near else ";"
        raise UserError(f"there is no judge {name[:40]!r}{meant} the judges are {', '.join(JUDGES)}")
    if model is None:
        raise UserError(
            "the judge 'model' needs a model to judge with; name one in the configuration, or use another judge"
        )
    return ModelJudge(model)
