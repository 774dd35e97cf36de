"""Threads of BLAS and OpenMP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def threads_limited(threads: int) -> Iterator[None]:
    """Limit BLAS and OpenMP to this many threads: two that share a core wait for each other, up to 130 times as
    long.
    """
    # Imported here: only tests with judged times need it.
    from threadpoolctl import threadpool_limits

    with threadpool_limits(threads):
        yield
