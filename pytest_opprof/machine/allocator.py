"""Keep memory of the C library between tests, so that the cost of one does not depend on the tests before it."""

from __future__ import annotations

import ctypes


def keep_memory() -> None:
    """Let this process keep the memory that arrays of up to 32 MiB used, if the C library is glibc.

    By default it returns such memory and requests it again, each page at 2 us, until a larger array was freed: a test
    of 1.4 ms took 2.2 ms alone, with 370 page faults a round, and none after tests of larger arrays.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return  # another C library, or Windows
    mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)  # the largest value that it accepts
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    # Untouched pages cost the first test that gets them, also in a later round: three arrays of 256 KiB did, in half
    # the processes that ran a test alone, and it took twice as long.
    touched = [bytearray(b"x") * _TOUCHED_BYTES for _ in range(2)]
    touched.clear()


# From malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_TOUCHED_BYTES = 31 * 2**20
