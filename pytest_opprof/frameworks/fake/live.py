"""A fake device: it records the ops that a test launches on it. For tests of marks, reports and CI set-ups.

    from pytest_opprof.backends import fake

    @pytest.mark.op_budget(Cast=1)
    def test_budget():                    # pytest --opprof --opprof-backend=fake
        fake.launch("Cast", device_ns=2_000)

It is only used if it is chosen by name. Its device and version can be set, to try baselines of several environments:
``fake.pretend(device="H100", version="2.0")``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns

from ...errors import BackendError
from ...profile.columns import ABSENT
from ...profile.environment import Environment
from ...profile.events.event_log import EventLog
from ..live.contract import Backend, KnownWork, Options


class FakeBackend(Backend):
    """Records the calls of `launch` and `allocate` while a window is open."""

    name = "fake"

    def __init__(self) -> None:
        self.device = "fake"
        self.version = "1"
        self.log: EventLog | None = None
        self.held = 0
        """Bytes that are allocated on the device."""
        self.done_ns: dict[int, int] | None = None
        """When the device finishes the work launched inside each op (-1: all work); None if times are not requested."""

    def in_use(self) -> bool:
        """Return True, since it is only asked after the user chose it."""
        return True

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        """Record the calls of `launch`. Raises BackendError if it records already."""
        if self.log is not None:
            raise BackendError("the fake backend is already recording, and recordings cannot be nested")
        self.log = EventLog(Environment((("fake", self.version),), self.device, timing=options.timing))
        self.log.knows_flops, self.log.knows_memory = True, bool(options.memory)
        self.done_ns = {} if options.moments else None
        try:
            yield self.log
        finally:
            self.log = None

    def device_bytes(self) -> int:
        """Return the bytes that `allocate` has not freed."""
        return self.held

    def selfcheck_work(self) -> KnownWork:
        """Return a product and a cast, which are launched but not computed."""
        return KnownWork(lambda: (launch("aten::mm"), launch("Cast")), {"MatMul": 1, "Cast": 1}, in_threads=False)


_BACKEND = FakeBackend()


def backend() -> FakeBackend:
    """Return the one fake device of this process."""
    return _BACKEND


def pretend(*, device: str = "fake", version: str = "1") -> None:
    """Pretend another device or framework version from the next window on."""
    _BACKEND.device, _BACKEND.version = device, version


def launch(
    name: str,
    *,
    device_ns: int = 1_000,
    inside: int = -1,
    dtypes: tuple[str, ...] = (),
    nbytes: int = ABSENT,
    flops: int | None = None,
) -> int:
    """Launch one op and return its number; do nothing while no window is open.

    *name* is a framework's (``aten::mm``) or canonical (``MatMul``). *inside* is the number of the op around it, whose
    *device_ns* includes this one's. A time or a size may be `ABSENT`: not known. *dtypes* are those of the source and
    the destination.
    """
    log = _BACKEND.log
    if log is None:
        return -1
    event = log.add(log.name(name, dtypes), device_ns, inside, nbytes=nbytes)
    if (done := _BACKEND.done_ns) is not None and device_ns != ABSENT:
        # The device works sequentially: new work begins after all work launched before.
        begin = done[inside] if inside in done and inside >= 0 else max(perf_counter_ns(), done.get(-1, 0))
        done[event], done[inside] = begin, begin + device_ns
        log.ran(event, begin, begin + device_ns)
    if flops is not None:
        log.computed(event, flops)
    return event


def allocate(size: int) -> None:
    """Allocate *size* bytes on the device (free them, if negative); recorded while a window is open."""
    _BACKEND.held += size
    if _BACKEND.log is not None:
        _BACKEND.log.allocated(size)
