"""``opprof selfcheck --backend NAME``: whether a backend keeps the contract of docs/backends.md."""

from __future__ import annotations

import argparse

from ... import __version__
from ...errors import BackendError
from ...frameworks.live.failures import failures_of
from ...frameworks.live.registry import ensure_available, load
from ...report.escaping import terminal
from ...report.tables import document
from ...testing import promises
from .checks import FAILED, OK

LEFT_OUT = "left out"


def run(arguments: argparse.Namespace) -> bool:
    """Print the result for each promise; return whether one is broken.

    Raises BackendError where the backend cannot be loaded, cannot run, or brings no work.
    """
    backend = load(arguments.backend)
    ensure_available(backend)
    with failures_of(backend):
        work = backend.selfcheck_work()
    if work is None:
        raise BackendError(
            f"backend {backend.name!r} brings no work to check it with: its selfcheck_work() is to return a KnownWork"
        )
    checks: list[dict[str, str]] = []
    for promise in promises(backend, work):
        if not checks and not arguments.json:
            print(f"opprof selfcheck of backend {backend.name}")
        status = FAILED if promise.broken else LEFT_OUT if promise.left_out else OK
        found = promise.broken or promise.left_out
        checks.append({"check": promise.name, "status": status, "found": found})
        if not arguments.json:
            print(terminal(f"  {status:11}  {promise.name:27}  {found}".rstrip()), flush=True)
    statuses = [check["status"] for check in checks]
    if arguments.json:
        print(document({"schema": 1, "version": __version__, "backend": backend.name, "checks": checks}))
    else:
        counted = [f"{statuses.count(each)} {each}" for each in (OK, FAILED, LEFT_OUT) if each in statuses]
        print(f"opprof: {', '.join(counted)}")
    return FAILED in statuses
