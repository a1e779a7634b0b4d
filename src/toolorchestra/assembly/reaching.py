"""Whether a chat endpoint answers: one small request that costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolorchestra.config import ChatModelSettings, Settings
from toolorchestra.errors import UnreachableError
from toolorchestra.models.sessions import environment_proxy
from toolorchestra.redaction import describe_error
from toolorchestra.trajectory import ORCHESTRATOR

_ABSENT = (502, 503, 504)


@dataclass(frozen=True, slots=True)
class Reached:
    """What came back from an endpoint.

    Attributes:
        status: The HTTP status; ``None`` where nothing answered.
        problem: Why nothing answered.
    """

    status: int | None
    problem: str = ""

    def told(self, where: str, url: str) -> str:
        """What to tell about it.

        Raises:
            UnreachableError: Nothing answered.
        """
        if self.status is None:
            raise UnreachableError(
                f"{where}: {url} is not reachable ({self.problem}); start the server, or correct {where}.base_url"
            )
        return f"{url} answers"


def endpoints(settings: Settings) -> Iterator[tuple[str, str]]:
    """Every endpoint of a configuration: its place there, and its address."""
    if settings.orchestrator.base_url is not None:
        yield ORCHESTRATOR, settings.orchestrator.base_url
    for name, model in settings.models.items():
        if isinstance(model, ChatModelSettings):
            yield f"models.{name}", model.base_url


async def ask(url: str, timeout_s: float) -> Reached:
    """Ask for the list of models, without a key. Any HTTP answer will do: many servers have no such list."""
    import aiohttp  # 0.1 s, for configurations without endpoints too

    timeout = aiohttp.ClientTimeout(total=timeout_s)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{url}/models", allow_redirects=False, proxy=environment_proxy(url)) as response,
        ):
            # A gateway says so in the name of a server that is not there.
            return (
                Reached(None, f"HTTP status {response.status}")
                if response.status in _ABSENT
                else Reached(response.status)
            )
    except TimeoutError:
        return Reached(None, f"no answer within {timeout_s:g} s")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Reached(None, describe_error(error))
