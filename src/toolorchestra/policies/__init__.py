"""Who decides: a chat model, or a fixed rule. Trainable policies are in :mod:`toolorchestra.policies.tokens`."""

from toolorchestra.policies.base import Policy, PolicyFactory
from toolorchestra.policies.chat import ChatPolicy
from toolorchestra.policies.scripted import (
    Agreement,
    CheapestFirst,
    FunctionPolicy,
    OneModel,
    Oracle,
    PlannedCall,
    RandomCalls,
    Scripted,
)

__all__ = [
    "Agreement",
    "ChatPolicy",
    "CheapestFirst",
    "FunctionPolicy",
    "OneModel",
    "Oracle",
    "PlannedCall",
    "Policy",
    "PolicyFactory",
    "RandomCalls",
    "Scripted",
]
