"""A model behind an OpenAI-compatible endpoint, over bare aiohttp.

This path runs millions of times, so it is thin. What it does besides sending and reading: it retries within bounds,
obeys ``Retry-After``, charges every attempt that returned usage, and tells failures apart by who must act.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
from yarl import URL

from toolorchestra.errors import RetryableError, UserError
from toolorchestra.messages import Message, ToolSpec
from toolorchestra.models.base import Completion, Sampling
from toolorchestra.models.billing import charge_for
from toolorchestra.models.failures import AttemptsFailedError, Endpoint, RequestRefusedError, classify, error_status
from toolorchestra.models.retries import Retries, parse_retry_after
from toolorchestra.models.sessions import SessionPool, environment_proxy
from toolorchestra.models.wire import Reply, UnreadableReplyError, message_to_wire, read_reply, sampling_to_wire
from toolorchestra.pricing import Price
from toolorchestra.redaction import HIDDEN, describe_error
from toolorchestra.trajectory import Charge

_CONNECT_S = 30.0


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What servers differ in.

    Attributes:
        sampling: Settings for every call; a call's own settings go before.
        parse_text_calls: Parse ``<tool_call>`` and ``<think>`` in the text, for a server without a tool parser.
        token_ids: Ask for token ids and log-probabilities (vLLM's ``return_token_ids``); a reply without them is an
            error, they are never guessed.
        max_tokens_key: ``max_completion_tokens`` for OpenAI's reasoning models.
        extra_body: Further keys of the request, such as ``chat_template_kwargs``.
        max_response_bytes: A longer reply is not read to its end.
    """

    sampling: Sampling = field(default_factory=Sampling)
    parse_text_calls: bool = False
    token_ids: bool = False
    max_tokens_key: str = "max_tokens"
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    max_response_bytes: int = 16 * 1024 * 1024


class _Answer(NamedTuple):
    status: int
    retry_after: str | None
    raw: bytes
    latency_s: float


class ChatEndpoint:
    """A :class:`~toolorchestra.models.base.ChatModel` at an OpenAI-compatible server.

    Close it in the loop that used it, by ``aclose()`` or as ``async with``.
    """

    def __init__(
        self,
        name: str,
        model: str,
        base_url: str,
        *,
        price: Price | None,
        api_key_env: str | None = None,
        timeout_s: float = 120.0,
        retries: Retries | None = None,
        pool: SessionPool | None = None,
        options: ChatOptions | None = None,
        seed: int | None = None,
    ) -> None:
        """Check the settings; nothing is sent yet.

        Args:
            name: For charges and reports.
            model: As the server names it.
            base_url: Where ``/chat/completions`` follows, mostly ending in ``/v1``.
            price: What tokens cost; ``None`` makes every charge unknown, never 0.
            api_key_env: The environment variable that holds the key; ``None`` for a server without keys. The key is
                read for every call and kept nowhere.
            timeout_s: Seconds of one attempt, from sending to the last byte; waiting for a free slot is not counted.
            retries: How often and how patiently to try again.
            pool: Connections to share with other endpoints; by default the endpoint has its own.
            options: What servers differ in.
            seed: Of the back-off's jitter.

        Raises:
            UserError: The URL is none, the timeout is not positive, or the key's variable is not set.
        """
        url = URL(base_url)
        if url.scheme not in ("http", "https") or not url.host:
            raise UserError(f"model {name!r}: base_url {base_url!r} is no URL such as http://localhost:8000/v1")
        if url.user or url.password:
            raise UserError(f"model {name!r}: base_url holds a user or password; name the key with api_key_env instead")
        if not timeout_s > 0:
            raise UserError(f"model {name!r}: timeout_s is {timeout_s}; it must be above 0")
        self._where = Endpoint(name, model, str(url.with_query(None)), api_key_env)
        # A query stays where it is: Azure has its API version there.
        self._url = (url / "chat/completions").with_query(url.query)
        self._price = price
        self._timeout_s = timeout_s
        self._retries = retries or Retries()
        self._own_pool = pool is None
        self._pool = pool or SessionPool()
        self._options = options or ChatOptions()
        self._rng = random.Random(seed)
        self._proxy = environment_proxy(base_url)
        self._headers()

    @property
    def name(self) -> str:
        """The name that charges and reports use."""
        return self._where.name

    def __repr__(self) -> str:
        """The address, without any secret."""
        return f"ChatEndpoint({self._where.name!r}, {self._where.model!r}, {self._where.base_url!r})"

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec] = (), sampling: Sampling = Sampling()
    ) -> Completion:
        """Answer a conversation.

        Raises:
            AttemptsFailedError: Every attempt failed (a ``RetryableError`` that carries what they cost).
            ContextLengthError: The conversation does not fit (a ``ModelFacingError``).
            RequestRefusedError: The server's content policy refuses the text (a ``ModelFacingError``).
            UserError: The key is refused, the model unknown, the account empty or the request unacceptable.
        """
        data = json.dumps(self._payload(messages, tools, sampling)).encode()
        charges: list[Charge] = []
        attempt = 1
        while True:
            try:
                reply = await self._attempt(data, attempt, charges, tools=tools, turn=len(messages))
                return self._completion(reply, charges)
            except RetryableError as error:
                wait_s = self._retries.wait_s(attempt, error.retry_after_s, self._rng)
                if wait_s is None:
                    raise self._give_up(error, attempt, charges) from error
            except RequestRefusedError as error:
                error.charges = tuple(charges)
                raise
            await asyncio.sleep(wait_s)
            attempt += 1

    async def aclose(self) -> None:
        """Close the endpoint's own connections; a shared pool is left open."""
        if self._own_pool:
            await self._pool.aclose()

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.aclose()

    def _payload(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> dict[str, Any]:
        options = self._options
        payload: dict[str, Any] = {
            "model": self._where.model,
            "messages": [message_to_wire(message) for message in messages],
            **sampling_to_wire(options.sampling, options.max_tokens_key),
            **sampling_to_wire(sampling, options.max_tokens_key),
        }
        if tools:
            payload["tools"] = [tool.to_wire() for tool in tools]
        if options.token_ids:
            payload |= {"return_token_ids": True, "logprobs": True}
        return {**payload, **options.extra_body}

    def _without_key(self, body: Any) -> Any:
        """An error's body without the key, which some servers echo, however short it is."""
        key = self._headers().get("Authorization", "").removeprefix("Bearer ")
        return (
            _decode(json.dumps(body, ensure_ascii=False).replace(key, HIDDEN).encode(errors="replace")) if key else body
        )

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        env = self._where.api_key_env
        if env is None:
            return headers
        key = os.environ.get(env, "").strip()
        if not key:
            raise UserError(f"model {self.name!r}: the environment variable {env} is not set; put the API key there")
        if not (key.isascii() and key.isprintable()):
            raise UserError(f"model {self.name!r}: the key in {env} holds characters that no key has; copy it again")
        return headers | {"Authorization": f"Bearer {key}"}

    async def _attempt(
        self, data: bytes, attempt: int, charges: list[Charge], *, tools: Sequence[ToolSpec], turn: int
    ) -> Reply:
        """One request. Its charge, if it returned usage, is added before anything can go wrong with its content."""
        answer = await self._post(data)
        body = _decode(answer.raw)
        count = "" if attempt == 1 else f"attempt {attempt} of {self._retries.attempts}"
        try:
            reply = self._read(answer, body, tools, turn)
        except Exception:
            # A reply that cannot be used may have been billed all the same.
            self._bill(
                body, answer, charges, note=f"attempt {attempt} of {self._retries.attempts}, failed", only_usage=True
            )
            raise
        self._bill(body, answer, charges, note=count, only_usage=False)
        return reply

    def _read(self, answer: _Answer, body: Any, tools: Sequence[ToolSpec], turn: int) -> Reply:
        asked_s = parse_retry_after(answer.retry_after)
        if not 200 <= answer.status < 300:
            raise classify(self._where, answer.status, self._without_key(body), asked_s)
        if not isinstance(body, Mapping):
            raise RetryableError(f"{self._where} sent a reply that is no JSON object (cut off, or no chat API)")
        error = body.get("error")
        if error and not body.get("choices"):
            raise classify(self._where, error_status(error), self._without_key(body), asked_s)
        try:
            return read_reply(body, tools, turn=turn, parse_text_calls=self._options.parse_text_calls)
        except UnreadableReplyError as problem:
            raise RetryableError(f"{self._where}: {problem}") from None

    async def _post(self, data: bytes) -> _Answer:
        headers = self._headers()
        async with self._pool.slot() as session:
            began = time.perf_counter()
            timeout = aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=min(_CONNECT_S, self._timeout_s))
            try:
                async with session.post(
                    self._url, data=data, headers=headers, timeout=timeout, allow_redirects=False, proxy=self._proxy
                ) as response:
                    raw = await self._bounded(response)
                    latency_s = time.perf_counter() - began
                    return _Answer(response.status, response.headers.get("Retry-After"), raw, latency_s)
            except TimeoutError:
                raise RetryableError(f"{self._where} did not answer within {self._timeout_s:g} s") from None
            except aiohttp.ClientConnectorCertificateError as error:
                raise UserError(f"{self._where}: its certificate is not trusted ({describe_error(error)})") from None
            except (aiohttp.ClientError, OSError) as error:
                raise RetryableError(f"{self._where}: the connection failed ({describe_error(error)})") from error

    async def _bounded(self, response: aiohttp.ClientResponse) -> bytes:
        raw = bytearray()
        async for chunk in response.content.iter_any():
            raw += chunk
            if len(raw) > self._options.max_response_bytes:
                raise RetryableError(f"{self._where} sent more than {self._options.max_response_bytes} bytes")
        return bytes(raw)

    def _bill(self, body: Any, answer: _Answer, charges: list[Charge], *, note: str, only_usage: bool) -> None:
        usage = body.get("usage") if isinstance(body, Mapping) else None
        if usage or not only_usage:
            charges.append(
                charge_for(usage, source=self.name, price=self._price, latency_s=answer.latency_s, note=note)
            )

    def _completion(self, reply: Reply, charges: Sequence[Charge]) -> Completion:
        ids, logprobs = reply.completion_ids, reply.logprobs
        if self._options.token_ids and (
            reply.prompt_ids is None or ids is None or logprobs is None or len(ids) != len(logprobs)
        ):
            raise UserError(
                f"{self._where} returned no token ids with log-probabilities; use a vLLM that knows return_token_ids, "
                "or switch token_ids off"
            )
        return Completion(
            message=reply.message,
            charges=tuple(charges),
            finish_reason=reply.finish_reason,
            model=reply.model or self._where.model,
            prompt_ids=reply.prompt_ids,
            completion_ids=ids,
            logprobs=logprobs,
        )

    def _give_up(self, error: RetryableError, attempts: int, charges: Sequence[Charge]) -> AttemptsFailedError:
        asked_s = error.retry_after_s
        if attempts < self._retries.attempts:
            why = f"it asks to wait {asked_s:g} s, more than the {self._retries.retry_after_cap_s:g} s allowed"
        else:
            why = f"attempt {attempts} of {self._retries.attempts}"
        return AttemptsFailedError(f"{error} ({why})", charges=charges, attempts=attempts, retry_after_s=asked_s)


def _decode(raw: bytes) -> Any:
    """The body as JSON, else as text."""
    text = raw.decode("utf-8", errors="replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
