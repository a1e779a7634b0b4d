"""The worlds that an episode can run in, and how the calls of a turn are carried out."""

from toolorchestra.environments.base import Environment
from toolorchestra.environments.calls import Carried, carry_out
from toolorchestra.environments.qa import SUBMIT, QuestionEnvironment

__all__ = ["SUBMIT", "Carried", "Environment", "QuestionEnvironment", "carry_out"]
