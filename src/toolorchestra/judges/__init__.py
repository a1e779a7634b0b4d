"""Judges: is an answer right? By its words, its number, its mathematics, or as a model sees it."""

from toolorchestra.judges.base import Judge, Verdict
from toolorchestra.judges.calibration import Calibration, Labelled, calibrate
from toolorchestra.judges.choice import JUDGES, make_judge
from toolorchestra.judges.exact import ExactJudge
from toolorchestra.judges.final_answer import final_answer
from toolorchestra.judges.mathematical import MathJudge
from toolorchestra.judges.model import JudgeReply, ModelJudge, read_reply
from toolorchestra.judges.number import NumberJudge

__all__ = [
    "JUDGES",
    "Calibration",
    "ExactJudge",
    "Judge",
    "JudgeReply",
    "Labelled",
    "MathJudge",
    "ModelJudge",
    "NumberJudge",
    "Verdict",
    "calibrate",
    "final_answer",
    "make_judge",
    "read_reply",
]
