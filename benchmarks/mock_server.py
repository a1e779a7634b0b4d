"""The server side of ``loop.py``, in a process of its own: it asks for ``TURNS`` look-ups, then answers.

Prints its base URL and serves until its standard input closes.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from toolorchestra.testing import MockChatServer, MockReply

TURNS = 8
USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 40,
    "total_tokens": 1240,
    "prompt_tokens_details": {"cached_tokens": 1024},
}


def reply(body: dict[str, Any]) -> MockReply:
    """The next look-up, or the end; by a tool where the client wants to be told so (smolagents)."""
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    if turn < TURNS:
        return MockReply(tool_calls=[("lookup", {"key": f"entry {turn}"})], usage=USAGE)
    names = {tool["function"]["name"] for tool in body.get("tools", ())}
    if "final_answer" in names:
        return MockReply(tool_calls=[("final_answer", {"answer": "done"})], usage=USAGE)
    return MockReply("done", usage=USAGE)


async def serve() -> None:
    """Serve until standard input closes, which it also does when the benchmark dies."""
    async with MockChatServer(reply, keep=False) as server:
        print(server.base_url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
