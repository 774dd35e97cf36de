"""What a backend records of a stretch of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_opprof.frameworks.live.contract import Backend, Options
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.op_profile import OpProfile


class Watch:
    def __init__(self, backend: Backend, options: Options | None = None) -> None:
        self._backend = backend
        self._options = options or Options()
        self.profile: OpProfile

    @contextmanager
    def ops(self) -> Iterator[None]:
        with self._backend.collect(self._options) as log:
            yield
        self.profile = assemble([(log.freeze(), {0: 0})], [1])

    @property
    def counts(self) -> dict[str, int]:
        return {stats.op: stats.most_calls for stats in self.profile.ops}
