"""The loops that ``loop.py`` compares: each runs ``episodes`` times eight tool turns and an answer, one after another.

Every contender is measured in a process of its own, since what one imports or leaves behind would count for the next.
The peers run with their tracing and telemetry off (they would call the internet); ours writes its trajectories, with
the cost of every turn, to disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from typing import Any

import aiohttp
from mock_server import TURNS

import toolorchestra
from toolorchestra.environments import QuestionEnvironment
from toolorchestra.judges import ExactJudge
from toolorchestra.messages import ToolSpec
from toolorchestra.models import ChatEndpoint
from toolorchestra.models.sessions import SessionPool
from toolorchestra.policies import ChatPolicy
from toolorchestra.pricing import Price
from toolorchestra.rollout import Limits, group_requests, run_episodes
from toolorchestra.runs import RunFolder, RunRecord
from toolorchestra.tasks import Task
from toolorchestra.tools.base import CallContext
from toolorchestra.trajectory import ToolResult

FOUND = "an entry of the usual length, as a search result has it. " * 8
QUESTION = "Look eight entries up, then say that you are done."
DESCRIPTION = "Looks an entry up."
PARAMETERS = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
PRICE = Price(input=Decimal("0.05"), output=Decimal("0.20"), cache_read=Decimal("0.005"))


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of this process's CPU and of the wall clock, and how many turns they were for."""

    cpu_s: float
    wall_s: float
    turns: int


class Lookup:
    """The tool: an entry, after as many seconds as its list says."""

    spec = ToolSpec("lookup", DESCRIPTION, PARAMETERS)

    def __init__(self, seconds: Sequence[float] = ()) -> None:
        self._seconds = iter(seconds)

    async def call(self, arguments: Any, context: CallContext) -> ToolResult:
        seconds = next(self._seconds, 0.0)
        if seconds:
            await asyncio.sleep(seconds)
        return ToolResult(FOUND)


async def run_ours(
    base_url: str, episodes: int, *, concurrency: int = 1, sleeps: Sequence[Sequence[float]] | None = None
) -> Measured:
    """Our loop whole: endpoint, policy, environment, judge, limits, prices, and the run's folder on disk."""
    requests = group_requests([Task("entries", QUESTION, "done")], episodes)

    def make_environment(task: Task, sample: int) -> QuestionEnvironment:
        return QuestionEnvironment(task, [Lookup(sleeps[sample] if sleeps else ())], ExactJudge(), sample=sample)

    with tempfile.TemporaryDirectory() as folder, RunFolder(Path(folder)).writing(RunRecord({})) as run:
        async with (
            SessionPool(max(256, concurrency)) as pool,
            ChatEndpoint("mock", "mock", base_url, price=PRICE, pool=pool) as model,
        ):
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            done = await run_episodes(
                requests,
                factory=ChatPolicy(model),
                make_environment=make_environment,
                limits=Limits(usd=1.0, seconds=600),
                concurrency=concurrency,
                on_done=run.append,
            )
            measured = Measured(time.process_time() - cpu_s, time.perf_counter() - wall_s, (TURNS + 1) * episodes)
        written = run.trajectories()
    wrong = [seen for seen in done if not seen.solved or len(seen.steps) != TURNS + 1 or not seen.cost_usd]
    if wrong or len(written) != len(done):
        raise SystemExit(f"{len(wrong)} of {episodes} episodes went wrong, such as {wrong[:1]}")
    return measured


async def _repeat(episode: Callable[[], Awaitable[str]], episodes: int) -> Measured:
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    for _ in range(episodes):
        answer = await episode()
        if answer != "done":
            raise SystemExit(f"an episode ended with {answer!r}")
    return Measured(time.process_time() - cpu_s, time.perf_counter() - wall_s, (TURNS + 1) * episodes)


async def run_aiohttp(base_url: str, episodes: int) -> Measured:
    """The floor: the same requests without any loop around them."""
    tools = [Lookup.spec.to_wire()]
    async with aiohttp.ClientSession() as session:

        async def episode() -> str:
            messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
            while True:
                body = {"model": "mock", "messages": messages, "tools": tools}
                async with session.post(f"{base_url}/chat/completions", json=body) as response:
                    message = (await response.json())["choices"][0]["message"]
                messages.append(message)
                if not message.get("tool_calls"):
                    return str(message["content"])
                for call in message["tool_calls"]:
                    json.loads(call["function"]["arguments"])
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": FOUND})

        return await _repeat(episode, episodes)


async def run_openai_agents(base_url: str, episodes: int) -> Measured:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    @function_tool(description_override=DESCRIPTION)
    async def lookup(key: str) -> str:
        return FOUND

    async with AsyncOpenAI(base_url=base_url, api_key="none") as client:
        agent = Agent(name="a", tools=[lookup], model=OpenAIChatCompletionsModel("mock", openai_client=client))

        async def episode() -> str:
            return str((await Runner.run(agent, QUESTION, max_turns=TURNS + 2)).final_output)

        return await _repeat(episode, episodes)


async def run_pydantic_ai(base_url: str, episodes: int) -> Measured:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def lookup(key: str) -> str:
        """Looks an entry up."""
        return FOUND

    async with AsyncOpenAI(base_url=base_url, api_key="none") as client:
        agent = Agent(OpenAIChatModel("mock", provider=OpenAIProvider(openai_client=client)), tools=[lookup])

        async def episode() -> str:
            return str((await agent.run(QUESTION)).output)

        return await _repeat(episode, episodes)


async def run_smolagents(base_url: str, episodes: int) -> Measured:
    from smolagents import LogLevel, OpenAIServerModel, ToolCallingAgent, tool

    @tool
    def lookup(key: str) -> str:
        """Looks an entry up.

        Args:
            key: The entry.
        """
        return FOUND

    model = OpenAIServerModel("mock", api_base=base_url, api_key="none")

    async def episode() -> str:
        # It has no asynchronous form; at one episode at a time that makes no difference.
        agent = ToolCallingAgent([lookup], model, max_steps=TURNS + 2, verbosity_level=LogLevel.OFF)
        return str(agent.run(QUESTION))

    return await _repeat(episode, episodes)


Contender = Callable[[str, int], Awaitable[Measured]]

CONTENDERS: dict[str, tuple[str, Contender]] = {
    "toolorchestra": ("toolorchestra", run_ours),
    "bare aiohttp": ("aiohttp", run_aiohttp),
    "openai-agents": ("openai-agents", run_openai_agents),
    "pydantic-ai": ("pydantic-ai-slim", run_pydantic_ai),
    "smolagents": ("smolagents", run_smolagents),
}
"""By name: the distribution whose version is printed, and the loop."""


def version_of(name: str) -> str | None:
    """The installed version of a contender; ``None`` if it is not installed."""
    if name == "toolorchestra":
        return toolorchestra.__version__
    try:
        return metadata.version(CONTENDERS[name][0])
    except metadata.PackageNotFoundError:
        return None


async def measure(name: str, base_url: str, episodes: int) -> Measured:
    """Warm up, then measure."""
    os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")
    run = CONTENDERS[name][1]
    await run(base_url, 3)
    return await run(base_url, episodes)
