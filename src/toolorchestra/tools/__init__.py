"""What an orchestrator can call: code, search, models.

Importing this is cheap: bm25s and pydantic-monty are loaded by the tool that needs them, when it is built.
"""

from toolorchestra.tools.base import CallContext, Tool
from toolorchestra.tools.code import (
    CodeBackend,
    CodeInterpreter,
    CodeLimits,
    CodeRun,
    SandboxReport,
    choose_backend,
    detect,
)
from toolorchestra.tools.describe import Fee, call_charges, check_tool_name, describe_tool
from toolorchestra.tools.model_tool import ModelTool
from toolorchestra.tools.search import Bm25Index, LocalSearch, Passage, read_folder

__all__ = [
    "Bm25Index",
    "CallContext",
    "CodeBackend",
    "CodeInterpreter",
    "CodeLimits",
    "CodeRun",
    "Fee",
    "LocalSearch",
    "ModelTool",
    "Passage",
    "SandboxReport",
    "Tool",
    "call_charges",
    "check_tool_name",
    "choose_backend",
    "describe_tool",
    "detect",
    "read_folder",
]
