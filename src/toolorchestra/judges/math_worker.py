"""The process in which math-verify runs: one JSON line in (``{"gold": […], "answer": …}``), one JSON line out.

It is started as a script and imports nothing of this package. sympy can take any time and memory on hostile input,
holds the interpreter's lock and uses signals, so it never runs in the process of the rollouts; whoever started this
process kills it when an answer takes too long. Memory is bounded here, where the system can.
"""

from __future__ import annotations

import json
import sys

MEMORY_BYTES = 2 * 1024**3


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:  # not on this system; the time is bounded all the same
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _compare(gold: list[str], answer: str) -> dict[str, object]:
    from math_verify import parse, verify

    # no timeouts of its own: they would need signals, and the parent's is harder
    given = parse(answer, parsing_timeout=None)
    if not given:
        return {"correct": False, "reason": "the answer holds no mathematics"}
    readable = False
    for right in gold:
        expected = parse(f"${right}$", parsing_timeout=None) or parse(right, parsing_timeout=None)
        readable = readable or bool(expected)
        if expected and verify(expected, given, timeout_seconds=None):
            return {"correct": True, "reason": "mathematically equal"}
    if not readable:
        return {"correct": None, "reason": "the right answer is not mathematics that can be read"}
    return {"correct": False, "reason": "not mathematically equal"}


def main() -> None:
    """Answer requests until the input ends."""
    _bound_memory()
    replies = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints is not a reply
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = _compare(request["gold"], request["answer"])
        except (Exception, MemoryError) as error:  # hostile input: any failure of sympy is "cannot say"
            reply = {"correct": None, "reason": f"math-verify failed with {type(error).__name__}"}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
