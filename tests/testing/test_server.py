"""The mock server is itself a product part: it must send exactly what the script says."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import aiohttp
import pytest

from toolorchestra.errors import UserError
from toolorchestra.testing import Fault, MockChatServer, MockReply


async def post(server: MockChatServer, body: dict[str, object]) -> tuple[int, str, dict[str, str]]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.base_url}/chat/completions", json=body) as response,
    ):
        return response.status, await response.text(), dict(response.headers)


async def test_replies_in_order_then_says_that_the_script_is_used_up() -> None:
    call = MockReply(tool_calls=[("search", {"query": "x"}), ("broken", "{oops")], usage=None)
    async with MockChatServer([MockReply("hi", reasoning="why"), call]) as server:
        status, text, _ = await post(server, {"model": "m"})
        first = json.loads(text)
        assert status == 200
        assert first["model"] == "m"
        assert first["choices"][0]["message"] == {"role": "assistant", "content": "hi", "reasoning_content": "why"}
        assert first["choices"][0]["finish_reason"] == "stop"
        assert first["usage"] == {"prompt_tokens": 10, "completion_tokens": 5}
        second = json.loads((await post(server, {}))[1])
        assert "usage" not in second
        assert second["choices"][0]["finish_reason"] == "tool_calls"
        calls = second["choices"][0]["message"]["tool_calls"]
        assert [call["function"]["arguments"] for call in calls] == ['{"query": "x"}', "{oops"]
        assert len({call["id"] for call in calls}) == 2
        status, text, _ = await post(server, {})
        assert status == 400
        assert "2 replies and this is request 3" in text
        assert server.count == 3
        assert server.requests[0].json == {"model": "m"}


async def test_a_function_sees_the_request() -> None:
    async with MockChatServer(lambda body: MockReply(body["messages"][-1]["content"].upper())) as server:
        _, text, _ = await post(server, {"messages": [{"role": "user", "content": "echo"}]})
        assert json.loads(text)["choices"][0]["message"]["content"] == "ECHO"


async def test_error_with_headers() -> None:
    async with MockChatServer([Fault.error(429, "slow", code="rate", Retry_After="3")]) as server:
        status, text, headers = await post(server, {})
        assert status == 429
        assert headers["Retry-After"] == "3"
        assert json.loads(text)["error"] == {"message": "slow", "type": "error", "code": "rate"}


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(body="x" * 100, broken="torn"), aiohttp.ClientPayloadError),
        (Fault(broken="disconnect"), aiohttp.ServerDisconnectedError),
    ],
)
async def test_broken_connections(fault: Fault, error: type[Exception]) -> None:
    async with MockChatServer([fault]) as server:
        with pytest.raises(error):
            await post(server, {})
        assert server.in_flight == 0


def test_threaded_serves_synchronous_code_and_stops() -> None:
    server = MockChatServer([], models=("a", "b"))
    with server.threaded():
        url = f"{server.base_url}/models"
        with urllib.request.urlopen(url, timeout=5) as response:
            assert [model["id"] for model in json.load(response)["data"]] == ["a", "b"]
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)
    with pytest.raises(UserError, match="does not run"):
        _ = server.base_url
