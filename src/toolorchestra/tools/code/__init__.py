"""The code interpreter: untrusted Python, always in a sandbox.

``detect`` tells what this machine has, ``choose_backend`` picks, ``CodeInterpreter`` is the tool.
"""

from toolorchestra.tools.code.base import CodeBackend, CodeLimits, CodeRun, RunStatus
from toolorchestra.tools.code.bubblewrap import BubblewrapBackend, SandboxPython, inspect_python
from toolorchestra.tools.code.detection import BackendName, SandboxReport, choose_backend, detect
from toolorchestra.tools.code.interpreter import CodeInterpreter
from toolorchestra.tools.code.monty import MontyBackend

__all__ = [
    "BackendName",
    "BubblewrapBackend",
    "CodeBackend",
    "CodeInterpreter",
    "CodeLimits",
    "CodeRun",
    "MontyBackend",
    "RunStatus",
    "SandboxPython",
    "SandboxReport",
    "choose_backend",
    "detect",
    "inspect_python",
]
