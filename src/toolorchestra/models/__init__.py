"""Language models that are called: behind an endpoint, recorded, simulated."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolorchestra.models.base import ChatModel, Completion, Sampling
from toolorchestra.models.failures import AttemptsFailedError, ContextLengthError, RequestRefusedError
from toolorchestra.models.retries import Retries

if TYPE_CHECKING:
    from toolorchestra.models.chat import ChatEndpoint, ChatOptions
    from toolorchestra.models.recorded import RecordedAnswer, RecordedModel, RecordedTable, read_recorded
    from toolorchestra.models.sessions import SessionPool
    from toolorchestra.models.simulated import SimulatedModel
    from toolorchestra.models.text import Unpacked, unpack_text

__all__ = [
    "AttemptsFailedError",
    "ChatEndpoint",
    "ChatModel",
    "ChatOptions",
    "Completion",
    "ContextLengthError",
    "RecordedAnswer",
    "RecordedModel",
    "RecordedTable",
    "RequestRefusedError",
    "Retries",
    "Sampling",
    "SessionPool",
    "SimulatedModel",
    "Unpacked",
    "read_recorded",
    "unpack_text",
]

# aiohttp takes 0.1 s to import, and most programs that name a model do not call one over HTTP.
_LAZY = {
    "ChatEndpoint": "chat",
    "ChatOptions": "chat",
    "RecordedAnswer": "recorded",
    "RecordedModel": "recorded",
    "RecordedTable": "recorded",
    "SessionPool": "sessions",
    "SimulatedModel": "simulated",
    "Unpacked": "text",
    "read_recorded": "recorded",
    "unpack_text": "text",
}


def __getattr__(name: str) -> Any:
    """Load the parts that need aiohttp or pydantic when they are first named."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
