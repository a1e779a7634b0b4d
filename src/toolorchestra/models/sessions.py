"""One HTTP session per event loop, with a bound on requests in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import aiohttp

from toolorchestra.errors import UserError


@dataclass(frozen=True, slots=True)
class _Lane:
    session: aiohttp.ClientSession
    slots: asyncio.Semaphore


class SessionPool:
    """Connections that several endpoints may share.

    The bound is a semaphore before the request rather than the connector's own limit: aiohttp counts the wait for a
    connection as part of a request's timeout, so that a long queue would fail requests that were never sent.

    Close it in the loop that used it: ``async with SessionPool() as pool: ...``.
    """

    def __init__(self, limit: int = 256) -> None:
        """Make an empty pool; sessions are opened when first needed.

        Args:
            limit: Requests in flight per event loop.

        Raises:
            UserError: The limit is below 1.
        """
        if limit < 1:
            raise UserError(f"the connection limit is {limit}; it must be at least 1")
        self._limit = limit
        self._lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lane] = WeakKeyDictionary()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Wait for a free slot and lend the loop's session."""
        lane = self._lane()
        async with lane.slots:
            yield lane.session

    async def aclose(self) -> None:
        """Close the running loop's session. The pool can be used again afterwards."""
        lane = self._lanes.pop(asyncio.get_running_loop(), None)
        if lane is not None:
            await lane.session.close()

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.aclose()

    def _lane(self) -> _Lane:
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None or lane.session.closed:
            connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=30)
            # No cookies: requests of different users and keys share the session.
            session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
            lane = _Lane(session, asyncio.Semaphore(self._limit))
            self._lanes[loop] = lane
        return lane


def environment_proxy(url: str) -> str | None:
    """The proxy that ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY`` name for a URL.

    Looked up once per endpoint: aiohttp's own ``trust_env`` costs two thread hops per request, and reads ``~/.netrc``.
    """
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)
