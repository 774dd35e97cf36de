"""Threads of BLAS and OpenMP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def threads_limited(threads: int) -> Iterator[None]:
    """Let BLAS and OpenMP use so many threads: two that share a core wait for each other, up to 130 times as long."""
    # Imported here: only tests whose times are judged need it.
    from threadpoolctl import threadpool_limits

    with threadpool_limits(threads):
        yield
