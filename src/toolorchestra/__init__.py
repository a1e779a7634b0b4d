"""Train, evaluate and run a small language model that orchestrates tools and other models.

This is the front door: the main nouns and the errors, each loaded when it is first asked for, so that importing the
package costs next to nothing. Everything else is imported from its own package, such as ``toolorchestra.rewards``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolorchestra.errors import (
        LimitReached,
        ModelFacingError,
        RetryableError,
        ToolOrchestraError,
        UnreachableError,
        UserError,
    )
    from toolorchestra.messages import Message, ToolCall, ToolSpec
    from toolorchestra.preferences import Preference
    from toolorchestra.tasks import Task, read_tasks, write_tasks
    from toolorchestra.trajectory import Action, Charge, Outcome, ToolResult, Trajectory

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Charge",
    "LimitReached",
    "Message",
    "ModelFacingError",
    "Outcome",
    "Preference",
    "RetryableError",
    "Task",
    "ToolCall",
    "ToolOrchestraError",
    "ToolResult",
    "ToolSpec",
    "Trajectory",
    "UnreachableError",
    "UserError",
    "__version__",
    "read_tasks",
    "write_tasks",
]

_HOMES = {
    "errors": (
        "LimitReached",
        "ModelFacingError",
        "RetryableError",
        "ToolOrchestraError",
        "UnreachableError",
        "UserError",
    ),
    "messages": ("Message", "ToolCall", "ToolSpec"),
    "preferences": ("Preference",),
    "tasks": ("Task", "read_tasks", "write_tasks"),
    "trajectory": ("Action", "Charge", "Outcome", "ToolResult", "Trajectory"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a re-exported name from its module on first use (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
