"""Propose a budget from a measurement: limits that hold now, as a mark and as options of ``opprof check``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from .. import units
from ..ops.vocabulary import CAST, DATA_MOVEMENT
from ..profile.op_profile import OpStats
from .budgets import WINDOW_KEYS

# Names that are no ops, such as ``(unlinked)``, and names that a budget would read as a glob or split.
_NO_KEY = re.compile(r"^\(|[*?\[=]")
# Limits by budget key.
Limits = Mapping[str, "int | str"]


def proposed(
    ops: Sequence[OpStats],
    device_ns: Sequence[int] | None,
    peak_memory: Sequence[int] | None,
    top: int,
    margin: float,
    is_told: Callable[[str], bool] = lambda op: True,
) -> dict[str, int | str]:
    """Return limits that the measurement meets.

    Calls of the *top* most expensive ops, and of ops that move or convert data, are exact, since counts have no noise.
    Device time and memory get a *margin*. The limit on casts is 0 if there are none. *is_told* returns whether the
    source distinguishes an op from others.
    """
    told = [stats for stats in ops if is_told(stats.op) and not _NO_KEY.search(stats.op)]
    expensive = sorted(told, key=lambda stats: (-stats.fastest_ns, -stats.most_calls))[: top or None]
    moving = [stats for stats in told if stats.op in DATA_MOVEMENT and stats not in expensive]
    limits: dict[str, int | str] = {stats.op: stats.most_calls for stats in (*expensive, *moving) if stats.most_calls}
    if CAST not in limits and is_told(CAST):
        limits[CAST] = 0
    if device_ns:
        limits["device_time"] = _at_least(min(device_ns) * (1 + margin), units.format_ns)
    if peak_memory:
        limits["peak_memory"] = _at_least(max(peak_memory) * (1 + margin), units.format_bytes)
    return limits


def _at_least(amount: float, write: Callable[[float, int], str]) -> str:
    """Return *amount*, rounded up to about three digits."""
    texts = (write(each, digits) for digits in (3, 6, 9) for each in (amount, amount * 1.005))
    return next((text for text in texts if units.parse(text).value >= amount), write(amount, 17))


def as_mark(limits: Limits) -> str:
    """Return the limits as a test's mark.

    >>> as_mark({"Cast": 3, "aten::foo": 2, "device_time": "5 ms"})
    '@pytest.mark.op_budget({"aten::foo": 2}, Cast=3, device_time="5 ms")'
    """
    named = {key: value for key, value in limits.items() if key in WINDOW_KEYS or re.fullmatch(r"[A-Z]\w*", key, re.A)}
    quoted = ", ".join(f"{_quoted(key)}: {_quoted(value)}" for key, value in limits.items() if key not in named)
    arguments = [f"{{{quoted}}}"] if quoted else []
    return f"@pytest.mark.op_budget({', '.join([*arguments, *(f'{k}={_quoted(v)}' for k, v in named.items())])})"


def as_check(file: str, limits: Limits, options: Iterable[str] = ()) -> str:
    """Return the command that checks a profile against the limits.

    >>> as_check("my trace.json", {"Cast": 3, "device_time": "5 ms"})
    "opprof check 'my trace.json' --budget Cast=3 --budget 'device_time=5 ms'"
    """
    budget = [word for key, value in limits.items() for word in ("--budget", f"{key}={value}")]
    return shlex.join(["opprof", "check", file, *options, *budget])


def _quoted(value: int | str) -> str:
    if isinstance(value, int):
        return str(value)
    return f'"{value}"' if value.isprintable() and '"' not in value and "\\" not in value else ascii(value)
