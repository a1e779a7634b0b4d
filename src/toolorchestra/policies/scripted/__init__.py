"""Policies that follow a fixed rule: the baselines that a trained orchestrator is compared with, and test doubles.

They take no time, cost nothing themselves and are the same in every run: what an episode of theirs costs is what its
calls cost.
"""

from toolorchestra.policies.scripted.arguments import arithmetic_in, fill_arguments, first_choice
from toolorchestra.policies.scripted.baselines import OneModel, Oracle, PlannedCall, RandomCalls
from toolorchestra.policies.scripted.cascades import Agreement, CheapestFirst, looks_failed, looks_unsure, same_answer
from toolorchestra.policies.scripted.doubles import FunctionPolicy, Scripted
from toolorchestra.policies.scripted.moves import SUBMIT, Result, call_tools, finish, results

__all__ = [
    "SUBMIT",
    "Agreement",
    "CheapestFirst",
    "FunctionPolicy",
    "OneModel",
    "Oracle",
    "PlannedCall",
    "RandomCalls",
    "Result",
    "Scripted",
    "arithmetic_in",
    "call_tools",
    "fill_arguments",
    "finish",
    "first_choice",
    "looks_failed",
    "looks_unsure",
    "results",
    "same_answer",
]
