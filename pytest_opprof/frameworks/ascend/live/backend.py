"""The backend for Ascend: the work of this process on an NPU, by torch_npu, MindSpore, Triton or ACL, through MSPTI.

Written after MSPTI's source (26.0.0), tested with the library built from it over a made-up driver, and on stand-ins.
Not tested on an NPU yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ....errors import BackendError
from ....profile.environment import Environment
from ....profile.events.event_log import EventLog
from ...live.contract import Backend, KnownWork, Options
from . import users

if TYPE_CHECKING:
    from .acl import Acl, Fence
    from .mspti import Mspti

_NO_COPIES = (
    "copies between host and NPU are not recorded: MSPTI does that only in a process that was started with"
    " LD_PRELOAD=$ASCEND_HOME_PATH/lib64/libmspti.so"
)


class AscendBackend(Backend):
    """Collects kernels of one NPU and all threads of this process; copies and sets if libmspti is preloaded.

    It does not override `settle`: the NPU times its work itself. A mark waits, as frameworks launch from threads of
    their own.
    """

    name = "ascend"

    def __init__(self) -> None:
        self._problem: dict[int, str | None] = {}
        self._mspti: Mspti | None = None
        self._fences: dict[int, Fence] = {}
        self._collecting = False
        self._said_no_copies = False

    @property
    def hint(self) -> str:
        """The user's remedy if nothing was recorded."""
        needed = "torch_npu, mindspore (on Ascend) or acl must be imported at the top of the module"
        return "" if users.imported() else needed

    def unavailable(self) -> str | None:
        """Return the missing part, or the conflicting profiler; None if the backend can run here."""
        return self._device_problem() or users.profiler() or self._library_problem() or None

    def in_use(self) -> bool:
        """Return True if this process imported a user of NPUs, and has an NPU."""
        # In this order, so that processes without these modules pay only for the first check.
        return bool(users.imported()) and self._device_problem() is None

    def begin_test(self) -> None:
        """Subscribe before the program initialises the NPU, if possible."""
        if self.in_use() and not users.profiler():
            with suppress(BackendError):  # the window reports the error when it opens
                self._subscribed()

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        """Record until the context ends.

        Raises BackendError if `unavailable` has a reason, if a record is missing, or if another profiler was started.
        """
        from . import events
        from .session import Session

        acl = self._start(options)
        mspti = self._subscribed()
        device = users.device()
        session = Session(mspti, acl, self._fence(acl, acl.device() if device is None else device))
        log = EventLog(
            _environment(acl, options),
            lambda: session.mark(users.settle),
            lambda name: events.is_known(name, mspti.names_launches),
        )
        if not mspti.sees_copies:
            log.unmeasured = dict.fromkeys(events.UNSEEN, _NO_COPIES)
            if not self._said_no_copies:
                self._said_no_copies = True
                log.remark(_NO_COPIES)
        session.open(users.settle)
        self._collecting = True
        try:
            yield log
            if other := users.profiler():
                raise BackendError(f"the ascend backend lost this window: {other}")
            recorded = session.close(users.settle)
        finally:
            self._collecting = False
            session.leave()
        events.fill(log, recorded, mspti, options.moments)
        if options.timing == "sync":
            events.check_alone(recorded)
        else:
            log.busy_ns = events.busy_ns(recorded)

    def selfcheck_work(self) -> KnownWork | None:
        """Return a product and a cast in torch_npu, or None without torch_npu."""
        if not find_spec("torch_npu"):
            return None
        torch: Any = import_module("torch")
        import_module("torch_npu")
        matrix = torch.ones(64, 64, dtype=torch.float16, device="npu")
        return KnownWork(
            lambda: (matrix @ matrix).to(torch.float32), {"MatMul": 1, "Cast": 1}, first_use="import torch, torch_npu"
        )

    def _start(self, options: Options) -> Acl:
        if self._collecting:
            raise BackendError("the ascend backend is already recording, and recordings cannot be nested")
        if reason := self.unavailable():
            raise BackendError(f"the ascend backend cannot record: {reason}")
        if options.timing == "sync":
            users.check_blocking()
        return _acl()

    def _subscribed(self) -> Mspti:
        from . import libraries
        from .mspti import Mspti

        if self._mspti is None:
            self._mspti = Mspti(libraries.mspti(), users.subscribers())
        return self._mspti

    def _fence(self, acl: Acl, device: int) -> Fence:
        from .acl import Fence

        if device not in self._fences:
            self._fences[device] = Fence(acl, device)
        return self._fences[device]

    def _device_problem(self) -> str | None:
        # Asked once a process. After a fork the answer may differ.
        process = os.getpid()
        if process not in self._problem:
            try:
                self._problem[process] = _acl().problem()
            except BackendError as error:
                self._problem[process] = str(error)
        return self._problem[process]

    def _library_problem(self) -> str | None:
        from . import libraries

        try:
            libraries.mspti()
        except BackendError as error:
            return str(error)
        return None


_BACKEND = AscendBackend()


def backend() -> AscendBackend:
    """Return the backend (for the entry point). There is one, as a process has one subscriber."""
    return _BACKEND


def problem() -> str | None:
    """Return why no NPU can be recorded here, or None if one can."""
    return _BACKEND._device_problem()


def _acl() -> Acl:
    from . import libraries
    from .acl import Acl

    return Acl(libraries.opened("libascendcl.so"))


def _environment(acl: Acl, options: Options) -> Environment:
    return Environment(tuple(sorted([("cann", acl.version()), *users.versions()])), acl.soc(), timing=options.timing)
