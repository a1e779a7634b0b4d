"""The embedded market: tasks, tools and simulated models that run offline, for the demo, the tests and first steps."""

from toolorchestra.demo.bank import COLLECTIONS, KINDS
from toolorchestra.demo.build import SPLITS, Split, build_tasks
from toolorchestra.demo.market import Market, bare_answer, price_per_call, roles, unsure
from toolorchestra.demo.pipeline import DemoProgress, DemoResult, run_demo
from toolorchestra.demo.plans import OracleFactory, Plan, PlanPolicy, Valued, best_plans, plans, value_plans
from toolorchestra.demo.roles import ROLES
from toolorchestra.demo.setting import Setting
from toolorchestra.demo.strategies import STRATEGIES, StrategyFactory, by_need
from toolorchestra.demo.wishes import WISHES

__all__ = [
    "COLLECTIONS",
    "KINDS",
    "ROLES",
    "SPLITS",
    "STRATEGIES",
    "WISHES",
    "DemoProgress",
    "DemoResult",
    "Market",
    "OracleFactory",
    "Plan",
    "PlanPolicy",
    "Setting",
    "Split",
    "StrategyFactory",
    "Valued",
    "bare_answer",
    "best_plans",
    "build_tasks",
    "by_need",
    "plans",
    "price_per_call",
    "roles",
    "run_demo",
    "unsure",
    "value_plans",
]
