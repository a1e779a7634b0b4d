"""Comparing systems: statistics with intervals, summaries, rewards that can be compared, and the HTML report.

What is slow to load (scipy, jinja2, plotly) is loaded by the function that needs it.
"""

from toolorchestra.evaluation.comparison import pooled_rewards
from toolorchestra.evaluation.report import render_report, write_report
from toolorchestra.evaluation.report_data import Adherence, Claim, Example, ReportData, Split
from toolorchestra.evaluation.statistics import Estimate, difference, mean, proportion, ratio, share, wilson
from toolorchestra.evaluation.summary import KindSummary, SystemSummary, call_share, summarise

__all__ = [
    "Adherence",
    "Claim",
    "Estimate",
    "Example",
    "KindSummary",
    "ReportData",
    "Split",
    "SystemSummary",
    "call_share",
    "difference",
    "mean",
    "pooled_rewards",
    "proportion",
    "ratio",
    "render_report",
    "share",
    "summarise",
    "wilson",
    "write_report",
]
