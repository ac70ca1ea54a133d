"""The C library's allocator, told to keep what is freed.

By default glibc gives large blocks back to the system as soon as they are freed, and asks for new ones at the next
operation. The system fills each page of those with zeros when it is touched; on the CPU that is most of what a small
convolution costs.
"""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_NEVER, _LARGEST = 2**31 - 1, 2**30


def keep_freed_memory() -> bool:
    """Have freed memory kept for the next operation, in all of this process; False where the C library is not glibc."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_MMAP_THRESHOLD, _LARGEST) and mallopt(_TRIM_THRESHOLD, _NEVER))
