"""What users need to test against: a local OpenAI-compatible server that answers from a script and fails on demand."""

from toolorchestra.testing.replies import Fault, MockReply, Script
from toolorchestra.testing.server import MockChatServer, RecordedRequest

__all__ = ["Fault", "MockChatServer", "MockReply", "RecordedRequest", "Script"]
