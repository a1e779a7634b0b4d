"""Where to write the names of points so that they do not cover each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_WIDTH, _HEIGHT = 860.0, 410.0  # of the plot area on a desktop screen, in pixels
_CHARACTER, _LINE, _GAP = 7.2, 17.0, 7.0
_POSITIONS = ("top right", "bottom right", "top left", "bottom left", "top center", "bottom center")


@dataclass(frozen=True, slots=True)
class Point:
    """A point with a name, in the coordinates of the axes (the logarithm, on a log axis).

    Attributes:
        x: Across.
        y: Up.
        name: What is written beside it.
        across: Left and right end of its horizontal interval; its own place where there is none.
        upright: Lower and upper end of its vertical interval; its own place where there is none.
    """

    x: float
    y: float
    name: str
    across: tuple[float, float]
    upright: tuple[float, float]


class _Box(NamedTuple):
    left: float
    right: float
    bottom: float
    top: float

    def overlap(self, other: _Box) -> float:
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, wide) * max(0.0, high)


def place_labels(points: Sequence[Point], x_range: Sequence[float], y_range: Sequence[float]) -> list[str]:
    """Choose plotly's ``textposition`` for every point, one after another, where it covers least of what is there."""
    centres = [_pixels(point.x, point.y, x_range, y_range) for point in points]
    taken = [box for point in points for box in _ink(point, x_range, y_range)]
    frame = _Box(0.0, _WIDTH, 0.0, _HEIGHT)
    chosen: list[str] = []
    for point, centre in zip(points, centres, strict=True):
        boxes = [_label_box(point.name, centre, position) for position in _POSITIONS]
        costs = [_covered(box, taken, frame) for box in boxes]
        best = costs.index(min(costs))
        taken.append(boxes[best])
        chosen.append(_POSITIONS[best])
    return chosen


def _pixels(x: float, y: float, x_range: Sequence[float], y_range: Sequence[float]) -> tuple[float, float]:
    across = (x - x_range[0]) / (x_range[1] - x_range[0])
    up = (y - y_range[0]) / (y_range[1] - y_range[0])
    return across * _WIDTH, up * _HEIGHT


def _ink(point: Point, x_range: Sequence[float], y_range: Sequence[float]) -> Iterator[_Box]:
    """The marker and its two bars, which a label must not cover. Thin bars weigh as much as they hurt reading."""
    x, y = _pixels(point.x, point.y, x_range, y_range)
    left, bottom = _pixels(point.across[0], point.upright[0], x_range, y_range)
    right, top = _pixels(point.across[1], point.upright[1], x_range, y_range)
    yield _Box(x - 8, x + 8, y - 8, y + 8)
    yield _Box(x - 4, x + 4, bottom, top)
    yield _Box(left, right, y - 4, y + 4)


def _label_box(name: str, centre: tuple[float, float], position: str) -> _Box:
    x, y = centre
    width = _CHARACTER * len(name)
    bottom = y + _GAP if position.startswith("top") else y - _GAP - _LINE
    left = {"right": x + _GAP, "left": x - _GAP - width, "center": x - width / 2}[position.split()[1]]
    return _Box(left, left + width, bottom, bottom + _LINE)


def _covered(box: _Box, taken: Sequence[_Box], frame: _Box) -> float:
    area = (box.right - box.left) * (box.top - box.bottom)
    return sum(box.overlap(other) for other in taken) + 3.0 * (area - box.overlap(frame))
