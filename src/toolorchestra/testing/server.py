"""A local OpenAI-compatible chat server that answers from a script and injects faults."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from toolorchestra.errors import UserError
from toolorchestra.testing.replies import Fault, MockReply, Script

_MAX_REQUEST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """What a client sent: the path with its query, the JSON and the headers."""

    path: str
    json: dict[str, Any]
    headers: Mapping[str, str]


class MockChatServer:
    """Serves ``POST /v1/chat/completions`` and ``GET /v1/models`` on a free port of localhost.

    In the running loop::

        async with MockChatServer([Fault.error(429, "slow down"), MockReply("42")]) as server:
            model = ChatEndpoint("small", "some-model", server.base_url, price=None)

    From synchronous code, in a thread of its own: ``with MockChatServer(script).threaded() as server: ...``.

    Attributes:
        count: Number of chat requests so far.
        in_flight: Number of chat requests that are being answered.
        most_in_flight: The largest ``in_flight`` seen.
        requests: What was sent, in the order of arrival (empty with ``keep=False``).
    """

    def __init__(self, script: Script, *, models: tuple[str, ...] = ("mock",), keep: bool = True) -> None:
        """Prepare a server; it listens once entered.

        Args:
            script: A function of the request, or replies in order. A request beyond the last gets status 400.
            models: What ``GET /v1/models`` lists.
            keep: Whether requests are kept; switch it off for long benchmarks.
        """
        self._script = script
        self._models = models
        self._keep = keep
        self._runner: web.AppRunner | None = None
        self._port = 0
        self.count = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.requests: list[RecordedRequest] = []

    @property
    def base_url(self) -> str:
        """The URL for a client, ending in ``/v1``.

        Raises:
            UserError: The server does not run.
        """
        if self._runner is None:
            raise UserError("the mock server does not run: enter it first (async with MockChatServer(...))")
        return f"http://127.0.0.1:{self._port}/v1"

    async def start(self) -> None:
        """Listen on a free port."""
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._list_models)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=2048)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close every connection and the port."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    @contextmanager
    def threaded(self) -> Iterator[Self]:
        """Run in a thread with a loop of its own, for synchronous code."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="mock-chat-server", daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.start(), loop).result(10)
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self.stop(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()

    async def _list_models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in self._models]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        number, self.count = self.count, self.count + 1
        if self._keep:
            self.requests.append(RecordedRequest(request.path_qs, body, dict(request.headers)))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            reply = self._reply(body, number)
            if reply.delay_s:
                await asyncio.sleep(reply.delay_s)
            if isinstance(reply, MockReply):
                return web.json_response(reply.to_wire(model=body.get("model", ""), number=number))
            return await _fail(request, reply)
        finally:
            self.in_flight -= 1

    def _reply(self, body: dict[str, Any], number: int) -> MockReply | Fault:
        if callable(self._script):
            return self._script(body)
        if number < len(self._script):
            return self._script[number]
        return Fault.error(400, f"the script has {len(self._script)} replies and this is request {number + 1}")


async def _fail(request: web.Request, fault: Fault) -> web.StreamResponse:
    payload = fault.payload()
    if not fault.broken:
        kind = "text/html" if isinstance(fault.body, str) else "application/json"
        return web.Response(status=fault.status, body=payload, headers=dict(fault.headers), content_type=kind)
    response = web.StreamResponse(status=fault.status, headers=dict(fault.headers))
    if fault.broken == "torn":
        response.content_length = len(payload)
        await response.prepare(request)
        await response.write(payload[: len(payload) // 2])
    if request.transport is not None:
        request.transport.close()
    return response
