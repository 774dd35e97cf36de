"""Parse and write quantities: "100 us", "5%", "64 MiB", "2 GFLOP". The only module that knows units.

Times are int nanoseconds, sizes int bytes, FLOPs int operations and shares fractions of 1 everywhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from .errors import UsageError

Dimension = Literal["time", "share", "bytes", "flops"]

_TIME = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_DECIMAL_BYTES = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_FLOPS = {"FLOP": 1, "kFLOP": 10**3, "MFLOP": 10**6, "GFLOP": 10**9, "TFLOP": 10**12}
_DIMENSIONS: dict[Dimension, dict[str, float]] = {
    "time": {**_TIME, "µs": 10**3, "μs": 10**3},  # both code points that print as mu
    "share": {"%": 0.01},
    "bytes": {**_BYTES, **_DECIMAL_BYTES},
    "flops": {**_FLOPS, **{f"{unit}s": factor for unit, factor in _FLOPS.items()}},
}
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,2})?)\s*([A-Za-zµμ%]{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its dimension: nanoseconds, a fraction of 1, bytes or floating-point operations."""

    dimension: Dimension
    value: float


def parse(text: str) -> Quantity:
    """Read a quantity such as ``"100 us"``, ``"5%"``, ``"64 MiB"`` or ``"2 GFLOP"``.

    Raises UsageError when *text* is no number followed by a known unit.

    >>> parse("1.5 ms")
    Quantity(dimension='time', value=1500000)
    >>> parse("5%")
    Quantity(dimension='share', value=0.05)
    """
    match = _QUANTITY.fullmatch(text.strip())
    for dimension, units in _DIMENSIONS.items():
        if match and match[2] in units:
            value = float(match[1]) * units[match[2]]
            return Quantity(dimension, value if dimension == "share" else round(value))
    raise UsageError(f"{text!r} is not a quantity; write a number and a unit: {', '.join(known_units())}")


def parse_share(text: object, what: str) -> float:
    """Read a percentage such as ``"10%"``; *what* names it in the error."""
    share = _of_dimension(text, "share")
    if share is None:
        raise UsageError(f"{what} is {text!r}; write a percentage such as '10%'")
    return share


def parse_duration(text: object, what: str) -> int:
    """Return the ns of a time such as ``"5 us"``; *what* names it in the error."""
    ns = _of_dimension(text, "time")
    if ns is None:
        raise UsageError(f"{what} is {text!r}; write a time with its unit ({', '.join(_TIME)}), such as '5 us'")
    return int(ns)


def _of_dimension(text: object, dimension: Dimension) -> float | None:
    """Return the value of a quantity; None for anything else, or for another dimension."""
    try:
        quantity = parse(text) if isinstance(text, str) else None
    except UsageError:
        return None
    return quantity.value if quantity and quantity.dimension == dimension else None


def known_units() -> list[str]:
    """Return the units to suggest, one spelling each."""
    return [*_TIME, "%", *_BYTES, *_FLOPS]


def format_ns(ns: float, digits: int = 3) -> str:
    """Write a time with three significant *digits*: ``130 us``."""
    return _scaled(ns, _TIME, digits)


def format_bytes(size: float, digits: int = 3) -> str:
    """Write a size with three significant digits: ``64 MiB``."""
    return _scaled(size, _BYTES, digits)


def format_flops(flops: float, digits: int = 3) -> str:
    """Write a number of floating-point operations with three significant digits: ``2.1 GFLOP``."""
    return _scaled(flops, _FLOPS, digits)


def format_share(share: float, digits: int = 3) -> str:
    """Write a fraction of 1 as a percentage: ``7.1%``."""
    return f"{_digits(share * 100, digits)}%"


def format_factor(times: float) -> str:
    """Write how many times as much: ``x3.54``, ``x3,540``."""
    return f"x{times:,.0f}" if times >= 100 else f"x{times:.3g}"


def format_change(before: float, after: float) -> str:
    """Write a relative change with its sign: ``+12.5%``; an infinite one as ``new``."""
    if before <= 0:
        return "new" if after > 0 else "+0%"
    percent = (after / before - 1) * 100
    return f"{percent:+.3g}%" if abs(percent) < 1000 else f"{percent:+.0f}%"


def format_range(low: float, high: float) -> str:
    """Write the bounds of a relative change: ``-12% to +45%``."""
    return f"{low:+.0%} to {high:+.0%}"


def format_interval(before: float, after: float, between: tuple[float, float]) -> str:
    """Write a relative change with its bounds *between*: ``+11% (8 to 14)``."""
    low, high = (100 * bound for bound in between)
    digits = 0 if high - low >= 2 else 1
    change, low, high = (round(each, digits) + 0.0 for each in (100 * (after / before - 1), low, high))  # no "-0"
    return f"{change:+.10g}% ({low:.10g} to {high:.10g})" if low < high else format_change(before, after)


def plural(number: object, what: str) -> str:
    """Write a number or range with its noun *what*: ``1 test``, ``2 processes``, ``3 launches``, ``1..2 calls``."""
    return f"{number} {what}" if str(number) == "1" else f"{number} {what}{'es' if what.endswith(('s', 'ch')) else 's'}"


def plural_times(number: int) -> str:
    """Write a number of times: ``once``, ``120,412 times``."""
    return "once" if number == 1 else f"{number:,} times"


def _scaled(value: float, units: dict[str, int], digits: int) -> str:
    # 0.9995 of a unit prints as 1.00 of it, so that no "1000 us" appears.
    large_enough = (unit for unit in units if abs(value) >= units[unit] * 0.9995)
    unit = max(large_enough, key=units.__getitem__, default=next(iter(units)))
    return f"{_digits(value / units[unit], digits)} {unit}"


def _digits(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text else text
