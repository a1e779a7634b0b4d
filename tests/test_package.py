"""The front door: light, typed, and what it says it is."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files

import pytest

import toolorchestra

# Imports `toolorchestra` in a fresh interpreter; prints the seconds it took and the top-level modules it loaded.
PROBE = """
import json, sys, time
before = set(sys.modules)
start = time.perf_counter()
import toolorchestra
seconds = time.perf_counter() - start
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps({"seconds": seconds, "loaded": sorted(loaded)}))
"""


def probe() -> dict[str, object]:
    run = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(run.stdout)


def test_importing_the_package_is_quick() -> None:
    best = min(probe()["seconds"] for _ in range(5))
    assert best < 0.3


def test_importing_the_package_loads_nothing_of_third_parties() -> None:
    loaded = set(probe()["loaded"])
    assert loaded - {"toolorchestra"} <= set(sys.stdlib_module_names)


def test_the_version_is_the_installed_one() -> None:
    assert toolorchestra.__version__ == version("toolorchestra")


@pytest.mark.parametrize("name", toolorchestra.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(toolorchestra, name) is not None
    assert name in dir(toolorchestra)


def test_the_lazy_names_are_the_public_names() -> None:
    assert {*toolorchestra._HOME_OF, "__version__"} == set(toolorchestra.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Trajectories'"):
        toolorchestra.Trajectories  # noqa: B018


def test_the_package_says_that_it_is_typed() -> None:
    assert files("toolorchestra").joinpath("py.typed").is_file()
