"""Comparing systems: statistics with intervals, summaries, rewards that can be compared, and the HTML report.

What is slow to load (scipy, jinja2, plotly) is loaded by the function that needs it.
"""

from toolorchestra.evaluation.comparison import pooled_rewards
from toolorchestra.evaluation.report import render_report, write_report
from toolorchestra.evaluation.report_data import Adherence, Claim, Example, ReportData, Split
from toolorchestra.evaluation.run import Evaluation, Progress, Results, curve_row, evaluate, read_results, write_results
from toolorchestra.evaluation.statistics import Estimate, difference, mean, proportion, ratio, share, wilson
from toolorchestra.evaluation.summary import KindSummary, SystemSummary, call_share, summarise

__all__ = [
    "Adherence",
    "Claim",
    "Estimate",
    "Evaluation",
    "Example",
    "KindSummary",
    "Progress",
    "ReportData",
    "Results",
    "Split",
    "SystemSummary",
    "call_share",
    "curve_row",
    "difference",
    "evaluate",
    "mean",
    "pooled_rewards",
    "proportion",
    "ratio",
    "read_results",
    "render_report",
    "share",
    "summarise",
    "wilson",
    "write_report",
    "write_results",
]
