"""When a judge should rather abstain: the confidence from which its verdicts are as reliable as wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from toolorchestra.errors import UserError


class Labelled(NamedTuple):
    """One verdict of a judge beside the truth.

    Attributes:
        confidence: What the judge gave, in percent (any scale will do, if it is always the same).
        judged_correct: Its verdict; ``None`` where it had none.
        truly_correct: What a human says.
    """

    confidence: float | None
    judged_correct: bool | None
    truly_correct: bool


class Calibration(NamedTuple):
    """A threshold, and what it gives on the labelled verdicts.

    Attributes:
        threshold: Verdicts of a lower confidence are withheld; infinite where no threshold is reliable enough.
        precision: The share of right verdicts among those that are kept; ``None`` if none is.
        precision_low: Lower end of its 95% interval (Wilson's, 1927). It says whether there were enough labels.
        coverage: The share of all labelled answers that still get a verdict.
        kept: The number of them.
    """

    threshold: float
    precision: float | None
    precision_low: float | None
    coverage: float
    kept: int


def calibrate(
    labelled: Sequence[Labelled | tuple[float | None, bool | None, bool]], *, precision: float = 0.95
) -> Calibration:
    """The lowest threshold at which the kept verdicts are right as often as wanted: the most coverage for it.

    Args:
        labelled: Verdicts beside the truth: ``(confidence, judged_correct, truly_correct)``. Those without a verdict
            or a confidence lower the coverage and nothing else.
        precision: The wanted share of right verdicts, "right" and "wrong" verdicts alike, from 0 to 1.

    Raises:
        UserError: There are no labels, or the precision is out of range.
    """
    if not labelled:
        raise UserError("calibrating a judge needs labelled verdicts; label some of its verdicts by hand")
    if not 0 < precision <= 1:
        raise UserError(f"the wanted precision is {precision:g}; give a number above 0 and up to 1")
    verdicts = sorted(
        (
            (confidence, judged == truth)
            for confidence, judged, truth in labelled
            if confidence is not None and judged is not None and math.isfinite(confidence)
        ),
        reverse=True,
    )
    best = Calibration(math.inf, None, None, 0.0, 0)
    right = 0
    for kept, (confidence, agrees) in enumerate(verdicts, start=1):
        right += agrees
        last_of_its_confidence = kept == len(verdicts) or verdicts[kept][0] < confidence
        if last_of_its_confidence and right / kept >= precision:
            best = Calibration(confidence, right / kept, wilson_low(right, kept), kept / len(labelled), kept)
    return best


def wilson_low(successes: int, trials: int) -> float:
    """Lower end of Wilson's 95% interval of a share (E. B. Wilson, J. Am. Stat. Assoc. 22, 1927)."""
    z = 1.959963984540054
    share = successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, (centre - spread) / (1 + z * z / trials))
