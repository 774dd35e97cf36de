"""The users of the NPU in this process: torch_npu, MindSpore, ACL. None of them is imported here."""

from __future__ import annotations

import os
import sys
from typing import Any

from ....errors import BackendError

# A process that imported one of these may use an NPU.
USERS = ("torch_npu", "mindspore", "acl")
# If it is 1 when torch_npu is imported, each launch waits for its kernel, and nothing is queued.
BLOCKING = "ASCEND_LAUNCH_BLOCKING"
# Variables that msprof sets in the process that it records.
_MSPROF = ("PROFILER_SAMPLECONFIG", "PROFILING_MODE")


def imported() -> list[str]:
    """Return the imported users of NPUs; MindSpore only if it runs on an NPU."""
    return [user for user in USERS if user in sys.modules and (user != "mindspore" or _mindspore_is_on_npu())]


def versions() -> list[tuple[str, str]]:
    """Return the frameworks with their versions."""
    found = [(user, str(getattr(sys.modules[user], "__version__", ""))) for user in imported() if user != "acl"]
    torch: Any = sys.modules.get("torch")
    return [*found, *([("torch", torch.__version__.split("+")[0])] if torch and ("torch_npu" in sys.modules) else [])]


def device() -> int | None:
    """Return the NPU of a framework, after the framework has initialised it; None if ACL knows it."""
    if "torch_npu" in imported():
        torch: Any = sys.modules["torch"]
        return int(torch.npu.current_device())
    if "mindspore" in imported():
        mindspore: Any = sys.modules["mindspore"]
        _synchronize(mindspore)
        return int(mindspore.get_context("device_id"))
    return None


def settle() -> None:
    """Wait for work that frameworks have not given to the NPU yet: they launch from threads of their own.

    Raises BackendError if the program's own work fails meanwhile.
    """
    try:
        torch: Any = sys.modules.get("torch")
        if "torch_npu" in sys.modules and torch.npu.is_initialized():
            torch.npu.synchronize()
        if _mindspore_is_on_npu():
            _synchronize(sys.modules["mindspore"])
    except RuntimeError as error:
        raise BackendError(f"work on the NPU failed after it was asked for: {error}") from error


def profiler() -> str:
    """Return the name of another profiler that records this process or NPU; empty if none is known."""
    if variable := next((each for each in _MSPROF if os.environ.get(each)), ""):
        return f"msprof records this process ({variable} is set), and CANN serves one profiler. Run pytest without it"
    creator = getattr(sys.modules.get("torch_npu.profiler._profiler_path_creator"), "ProfPathCreator", None)
    if creator and creator().is_prof_inited:
        return "torch_npu.profiler records in this process, and CANN serves one profiler. Stop it before this test"
    interface = getattr(sys.modules.get("mindspore.profiler.profiler_interface"), "ProfilerInterface", None)
    if getattr(interface, "is_initialized", False) and _mindspore_is_on_npu():
        return "MindSpore's profiler records in this process, and CANN serves one profiler. Stop it before this test"
    return ""


def subscribers() -> str:
    """Return suspects for the existing subscriber of MSPTI."""
    known = {
        "mspti": "a monitor of the mspti package",
        "triton": "Triton's or Inductor's autotuner",
        "torch_npu": "torch.profiler with ProfilerActivity.PrivateUse1",
    }
    found = [text for module, text in known.items() if module in sys.modules]
    return f"It may be {' or '.join(found) if found else 'a library that the program loaded'}; run this test without it"


def check_blocking() -> None:
    """Check that each launch waits for its kernel. Raises BackendError if it does not."""
    users = imported()
    if "torch_npu" in users and os.environ.get(BLOCKING) != "1":
        raise BackendError(
            "sync timing needs launches that wait from the start of the process: run pytest --opprof-timing=sync, or"
            f" set {BLOCKING}=1"
        )
    if "mindspore" in users and not _mindspore_waits(sys.modules["mindspore"]):
        raise BackendError(
            "sync timing needs launches that wait: call mindspore.runtime.launch_blocking() at the top of conftest.py"
        )


def _mindspore_waits(mindspore: Any) -> bool:
    settings = getattr(getattr(mindspore, "_c_expression", None), "RuntimeConf", None)
    by_runtime = getattr(settings and settings.get_instance(), "is_launch_blocking", bool)()
    return bool(by_runtime or mindspore.get_context("pynative_synchronize"))


def _mindspore_is_on_npu() -> bool:
    context: Any = getattr(sys.modules.get("mindspore"), "get_context", None)  # None while it is being imported
    return context is not None and context("device_target") == "Ascend"


def _synchronize(mindspore: Any) -> None:
    (getattr(mindspore, "runtime", None) or mindspore.hal).synchronize()  # hal before 2.5
