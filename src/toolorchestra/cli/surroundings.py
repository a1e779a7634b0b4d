"""What the program sets around itself before a library is loaded: quiet, and no busy waiting."""

from __future__ import annotations

import logging
import os
import warnings

DEBUG = "TOOLORCHESTRA_DEBUG"

_DEFAULTS = {
    # Threads of OpenMP that wait actively slow decoding 4 to 20 times where the cores are shared.
    "OMP_WAIT_POLICY": "PASSIVE",
    # The program shows its own progress; a dozen bars of the libraries between it say nothing.
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


def debugging() -> bool:
    """Whether the user wants to see everything."""
    return os.environ.get(DEBUG, "") not in ("", "0")


def prepare() -> None:
    """Set what the user has not set, and send warnings to stderr."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    handler = logging.StreamHandler()
    # The handler has the level: some libraries set that of their own loggers to DEBUG.
    handler.setLevel(logging.WARNING)
    logging.basicConfig(format="%(levelname)s: %(message)s", handlers=[handler])
    if not debugging():
        # Advice of one library to another, which the user can do nothing about.
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
