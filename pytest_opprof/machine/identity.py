"""The identity of this machine: the model of its CPU, and the number of cores this process may use."""

from __future__ import annotations

import os
import platform
import re
import sys
from functools import cache
from pathlib import Path

from ..units import plural

_CPUINFO = Path("/proc/cpuinfo")


@cache
def machine(cpuinfo: Path = _CPUINFO) -> str:
    """Return the facts that make times on a CPU comparable: its model and the cores this process may use.

    Not part of the environment: counts agree between CPU models, and hosted CI uses several. If the system does not
    tell the model, the machine is unique: it has the name of its host.
    """
    try:
        model = model_of(cpuinfo.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        model = platform.processor()  # Windows gives family, model and stepping; others one word or none: arm, i386
        model = model if " " in model else ""
    return f"{model or f'{platform.machine()} of unknown model on {platform.node()}'}, {plural(usable_cores(), 'core')}"


def with_python(machine: str) -> str:
    """Return a *machine* with this Python's version: plain Python code takes up to twice as long in another."""
    return f"{machine}, Python {sys.version_info.major}.{sys.version_info.minor}"


def usable_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def model_of(cpuinfo: str) -> str:
    """Return the model in Linux' */proc/cpuinfo*; empty if there is none. Each architecture has its own keys.

    On ARM it is the parts of all cores, by number if they are not among the common ones: there may be no ``model
    name``, or one of the architecture alone (ARMv7 Processor rev 3).
    """
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    pairs = [(key.strip().lower(), value.strip()) for key, _, value in lines]
    first = dict(reversed(pairs))
    parts = [value for key, value in pairs if key == "cpu part"]
    makers = [value for key, value in pairs if key == "cpu implementer"]
    if parts:
        return " + ".join(dict.fromkeys(map(_arm, makers, parts)))
    if mainframe := re.search(r"\bmachine = (\w+)", cpuinfo):
        return f"{first.get('vendor_id', '')} {mainframe[1]}".strip()
    known = (first.get(key, "") for key in ("model name", "cpu", "uarch"))
    return next((model for model in known if model not in ("", "unknown")), "")


def _arm(implementer: str, part: str) -> str:
    name = _ARM_PARTS.get(part) if implementer == "0x41" else None
    return f"{_ARM.get(implementer, f'implementer {implementer}')} {name or f'part {part}'}"


_ARM = {"0x41": "Arm", "0x48": "HiSilicon", "0x4e": "NVIDIA", "0x51": "Qualcomm", "0x61": "Apple", "0xc0": "Ampere"}
# Common implementers and parts, of the main ID register (MIDR), as Arm's manuals number them.
_ARM_PARTS = {
    "0xd03": "Cortex-A53",
    "0xd08": "Cortex-A72",
    "0xd0b": "Cortex-A76",
    "0xd0c": "Neoverse-N1",
    "0xd0d": "Cortex-A77",
    "0xd40": "Neoverse-V1",
    "0xd49": "Neoverse-N2",
    "0xd4f": "Neoverse-V2",
}
