"""What a language model that can be called looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from toolorchestra.messages import Message, ToolSpec
from toolorchestra.trajectory import Charge


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a completion is drawn. ``None`` leaves a setting to the server."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply of a model.

    Attributes:
        message: The assistant's message.
        charges: What it cost, one charge an attempt that returned usage.
        latency_s: Recorded or simulated seconds; ``None`` means that the caller's clock counts.
        finish_reason: ``stop``, ``tool_calls`` or ``length``.
        model: Who answered, as the server names it.
        prompt_ids: Token ids of the prompt, where the server gives them.
        completion_ids: Token ids of the reply, where the server gives them.
        logprobs: Log-probabilities of ``completion_ids``, where the server gives them.
    """

    message: Message
    charges: tuple[Charge, ...] = ()
    latency_s: float | None = None
    finish_reason: str = "stop"
    model: str = ""
    prompt_ids: tuple[int, ...] | None = None
    completion_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None


class ChatModel(Protocol):
    """A language model, called by name: by a provider, recorded or simulated."""

    @property
    def name(self) -> str:
        """The name that charges and reports use."""
        ...

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec] = (), sampling: Sampling = Sampling()
    ) -> Completion:
        """Answer a conversation.

        Raises:
            RetryableError: The infrastructure failed and bounded retries did not help.
            UserError: The user must act (a refused key, an unpriced model).
        """
        ...
