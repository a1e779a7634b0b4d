"""What every test may use: the folder of real data, and one hypothesis profile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

REPO = Path(__file__).resolve().parents[1]

# A shared machine stalls now and then, which says nothing about the code. CI draws the same examples every time.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of recorded real data: $TOOLORCHESTRA_DATA, else ../shared/data. Skips where there is none."""
    named = os.environ.get("TOOLORCHESTRA_DATA")
    folder = Path(named) if named else REPO.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set TOOLORCHESTRA_DATA to the folder that holds it")
    return folder
