"""What a model wrote, as reasoning, tool calls and content; and whether a call's arguments fit its tool.

Whole or streamed, the result is the same. Whatever is wrong with a call becomes an error that the model can read.
"""

from toolorchestra.parsing.events import (
    AllWasReasoning,
    CallArguments,
    CallEnd,
    CallStart,
    ContentDelta,
    ParsedOutput,
    ReasoningDelta,
    StreamEvent,
    collect,
)
from toolorchestra.parsing.schema import check_arguments, check_spec
from toolorchestra.parsing.stream import MAX_CALLS, NORMAL_ENDS, StreamParser, parse_output

__all__ = [
    "MAX_CALLS",
    "NORMAL_ENDS",
    "AllWasReasoning",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "ContentDelta",
    "ParsedOutput",
    "ReasoningDelta",
    "StreamEvent",
    "StreamParser",
    "check_arguments",
    "check_spec",
    "collect",
    "parse_output",
]
