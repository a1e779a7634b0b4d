"""Give memory that is no longer used back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import gc


def return_memory() -> None:
    """Collect garbage and, with the GNU C library, return the free heap to the system.

    Training allocates and frees blocks of ever other sizes; without this, what one phase has freed stays with the
    process and adds to what the next one needs.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
