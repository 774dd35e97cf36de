"""Parse and check budgets: limits as users write them -> Budget -> findings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from .. import errors, units
from ..errors import UsageError
from ..ops import names
from ..profile.op_profile import OpProfile, OpStats, has_dtypes
from ..python_calls.functions import is_class
from ..python_calls.names import PREFIX, is_glob, matching
from . import python_limits
from .findings import NO_OP, Broken, LimitResult
from .quantities import LEFT_BEHIND, OF_PYTHON, OF_TYPE, OPEN_THINGS, QUANTITIES, SHARE_OF_TIME, Needs, Quantity

if TYPE_CHECKING:
    from ..python_calls.counted import PythonCalls

# The quantity that a value limits, by the value's dimension, if the key is an op.
_OP_LIMITS: Mapping[str, Quantity] = {
    each.unit.dimensions[0]: each for each in (*QUANTITIES.values(), SHARE_OF_TIME) if each.of_window is None
}
# The limits under names that are no ops, by prefix: the field of a budget, the meanings, and an example.
_PREFIXED: Mapping[str, tuple[str, Mapping[str, Quantity], str]] = {
    PREFIX: ("python", {"count": QUANTITIES["calls"]}, f"a function, such as {PREFIX}json.loads"),
    OF_TYPE: ("left", {"count": QUANTITIES[LEFT_BEHIND]}, f"a type, such as {OF_TYPE}torch.Tensor"),
}
# The same for a lower-case keyword, which limits the whole window.
_WINDOW_LIMITS: Mapping[str, Mapping[str, Quantity]] = {
    name: dict.fromkeys(each.unit.dimensions, each) for name, each in QUANTITIES.items() if each.in_budgets
}
WINDOW_KEYS = (*_WINDOW_LIMITS, "only", "top")
_EXAMPLES = {
    "count": "a number (10 or '3..5')",
    "time": "a time ('5 ms')",
    "share": "a share of device time ('5%')",
    "bytes": "a size ('64 MiB')",
    "flops": "a number of operations ('2 GFLOP')",
}
_RANGE = re.compile(r"(\d{1,18})?\.\.(\d{1,18})?", re.ASCII)
_COUNT = re.compile(r"\d{1,18}", re.ASCII)
_THOUSANDS = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kM])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: a maximum, a minimum or both."""

    what: Quantity
    most: float | None
    least: float | None = None

    def __str__(self) -> str:
        return self.written(3)

    def written(self, digits: int) -> str:
        """Return the limit as users write it, with *digits* significant digits."""
        write = self.what.unit.write
        least = "" if self.least is None else f"{write(self.least, digits)}.."
        return least + ("" if self.most is None else write(self.most, digits))


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one test. `parse` makes it, `over` joins two, `check` judges a profile by it."""

    ops: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)
    """Limits by op: canonical name, raw name or glob."""
    window: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)
    """Limits of the whole window by keyword."""
    python: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)
    """Limits by Python function or glob, without the prefix ``python:``."""
    left: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)
    """Limits on what each call leaves behind, by type or glob, without the prefix `OF_TYPE`."""
    only: tuple[str, ...] | None = None
    top: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, mappings: Iterable[object], keywords: Mapping[str, object]) -> Budget:
        """Parse the arguments of one ``op_budget`` mark.

        Raises UsageError, quoting the user's spelling, for a limit without a meaning.
        """
        budget = cls()
        for mapping in mappings:
            if not isinstance(mapping, Mapping):
                raise UsageError(f"op_budget({mapping!r}): write Op=limit, or a mapping of op names to limits")
            budget = budget._with_ops(mapping)
        return budget._with_keywords(keywords)

    def _with_ops(self, limits: Mapping[object, object]) -> Budget:
        for op in limits:
            if not isinstance(op, str) or not op:
                raise UsageError(f"op_budget: an op name is a non-empty string, not {op!r}")
        found = {"ops": {**self.ops}, "python": {**self.python}, "left": {**self.left}}
        for key, value in limits.items():
            op = str(key)
            prefix = next((each for each in _PREFIXED if op.startswith(each)), "")
            of, meanings, example = _PREFIXED.get(prefix, ("ops", _OP_LIMITS, ""))
            if op == prefix:
                raise UsageError(f"op_budget({prefix!r}): name {example}")
            found[of][op.removeprefix(prefix)] = _limits(op, value, meanings)
        return replace(self, ops=found["ops"], python=found["python"], left=found["left"])

    def _with_keywords(self, keywords: Mapping[str, object]) -> Budget:
        window, ops, lists = dict(self.window), dict[object, object](), dict[str, tuple[str, ...]]()
        for key, value in keywords.items():
            if key in ("only", "top"):
                lists[key] = _names(key, value)
            elif key in _WINDOW_LIMITS:
                window[key] = _limits(key, value, _WINDOW_LIMITS[key])
            elif key[:1].isupper():
                ops[key] = value
            else:
                unknown = errors.unknown(key, {*WINDOW_KEYS, *names.canonical_ops()}, "limit", WINDOW_KEYS)
                raise UsageError(
                    f"{unknown} An op whose name is lower-case goes into a mapping: op_budget({{{key!r}: ...}})"
                )
        return replace(
            self, window=window, only=lists.get("only", self.only), top=lists.get("top", self.top)
        )._with_ops(ops)

    def over(self, farther: Budget) -> Budget:
        """Return these limits, completed by the limits of a mark *farther* from the test."""
        return Budget(
            ops={**farther.ops, **self.ops},
            window={**farther.window, **self.window},
            python={**farther.python, **self.python},
            left={**farther.left, **self.left},
            only=farther.only if self.only is None else self.only,
            top=farther.top if self.top is None else self.top,
        )

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) not in (None, {}) for each in fields(self))

    def needs(self, what: Needs) -> bool:
        """Return True if judging this budget requires recording *what*."""
        return any(limit.what.needs == what for limit in self._every_limit()) or (
            what == "python" and bool(self.python)
        )

    def without(self, what: Needs) -> Budget:
        """Return this budget without limits of the window that require recording *what*."""
        window = {key: limits for key, limits in self.window.items() if all(each.what.needs != what for each in limits)}
        return replace(self, window=window, left={} if what == "leaks" else self.left)

    @property
    def limits_time(self) -> bool:
        """Whether a limit is about time. If so, the measured rounds must not record anything that takes time."""
        return self.top is not None or any(limit.what.is_noisy for limit in self._every_limit())

    @property
    def allows_nothing(self) -> bool:
        """Whether the budget allows no op at all; an empty profile is then the expected result."""
        return any(limit.most == 0 for limit in self.window.get("calls", ())) or self.only == ()

    def _every_limit(self) -> Iterator[Limit]:
        for limits in (*self.ops.values(), *self.window.values(), *self.left.values()):
            yield from limits

    def check(
        self,
        profile: OpProfile,
        aliases: Mapping[str, str] | None = None,
        known: Collection[str] = (),
        python: PythonCalls | None = None,
    ) -> list[Broken]:
        """Return the numbers of *profile* that break a limit. Raises UsageError like `judged`."""
        return [each for _, broken in self.judged(profile, aliases, known, python) for each in broken]

    def judged(
        self,
        profile: OpProfile,
        aliases: Mapping[str, str] | None = None,
        known: Collection[str] = (),
        python: PythonCalls | None = None,
    ) -> Iterator[tuple[LimitResult, list[Broken]]]:
        """Yield each limit, and the numbers of *profile*, or calls of *python* functions, that break it.

        Counts, bytes, FLOPs and memory are judged at the worst step, times at the fastest. *known* holds the names in
        the baseline, so that an op which no longer runs is not taken for a spelling mistake.

        Raises UsageError for an unknown op name, and for a limit on a quantity that the backend cannot measure.
        """
        for key, limits in self.window.items():
            for limit in limits:
                of_python = key in OF_PYTHON
                is_of_ops = limit.what.needs == "memory" and not any(limit.what.of_whole(profile) or ())
                if is_of_ops and profile.is_empty and not self.allows_nothing:
                    # 0 would say that plain Python needs no memory.
                    raise UsageError(
                        f"the limit on {limit.what.of(None)} ({limit}) cannot be checked: no op ran. host_memory limits"
                        " the memory of Python objects"
                    )
                used = python_limits.of_window(key, limit, python) if of_python else _of_window(profile, limit)
                yield _judged(limit, None, used)
        for name, limits in self.python.items():
            for limit in limits:
                yield _judged(limit, PREFIX + name, python_limits.of_function(name, limit, python, limit.most))
        for kind, limits in self.left.items():
            yield from (_judged(limit, OF_TYPE + kind, _left_behind(profile, kind, limit)) for limit in limits)
        for op, limits in self.ops.items():
            stats, why = profile.stats(op, aliases, known), ""
            if stats.bytes is None and any(limit.what.name == "bytes" for limit in limits):
                why = _why_no_bytes(profile, profile.without_bytes(op, aliases, known))
            yield from (_judged(limit, op, _of_op(profile, stats, limit, why)) for limit in limits)
        if self.only is not None:
            beyond = _beyond_only(profile, self.only, aliases, known)
            limit_to = LimitResult("only", ", ".join(self.only) or NO_OP, is_broken=bool(beyond))
            yield limit_to, [Broken.of_only(op, calls, limit_to) for op, calls in beyond.items()]
        if self.top is not None:
            broken = list(_beyond_top(profile, self.top, aliases, known))
            yield LimitResult("top", ", ".join(self.top), is_broken=bool(broken)), broken


def _judged(limit: Limit, op: str | None, values: Sequence[float]) -> tuple[LimitResult, list[Broken]]:
    """Judge the *values* of the steps: the worst of an exact quantity, the fastest of a noisy one."""
    what, write = limit.what, limit.what.unit.write
    low = min(values, default=0)
    high = low if what.is_noisy else max(values, default=0)
    is_over = limit.most is not None and high > limit.most
    is_broken = is_over or (limit.least is not None and low < limit.least)
    digits = 3
    if is_broken:  # enough to show the difference: not "5 ms (budget: 5 ms)"
        beyond = high if is_over else low
        digits = next((n for n in (3, 6, 9) if write(beyond, n) not in limit.written(n).split("..")), 17)
    lowest, highest, budget = write(low, digits), write(high, digits), limit.written(digits)
    used = lowest if lowest == highest else f"{lowest}..{highest}"
    result = LimitResult(what.name, budget, op, used, high / limit.most if limit.most else None, is_broken)
    return result, [Broken.of(result)] if is_broken else []


def parse_pair(text: str) -> Budget:
    """Parse one ``KEY=LIMIT`` of the command line, in the grammar of the mark."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not key or not equals:
        raise UsageError(f"{text!r}: write OP=LIMIT, such as Cast=10 or device_time=5ms")
    if key in ("only", "top"):
        return Budget.parse([], {key: [name.strip() for name in value.split(",") if name.strip()]})
    return Budget.parse([], {key: value}) if key in _WINDOW_LIMITS else Budget.parse([{key: value}], {})


def _limits(key: str, value: object, meanings: Mapping[str, Quantity]) -> tuple[Limit, ...]:
    values = value if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise UsageError(f"op_budget({key}={value!r}): the list of limits is empty")
    return tuple(_limit(key, each, meanings) for each in values)


def _limit(key: str, value: object, meanings: Mapping[str, Quantity]) -> Limit:
    dimension, least, most = _parse(value)
    if dimension not in meanings:
        allowed = ", ".join(_EXAMPLES[each] for each in meanings)
        raise UsageError(f"op_budget({key}={value!r}): write {allowed}")
    if least is not None and most is not None and least > most:
        raise UsageError(f"op_budget({key}={value!r}): the range is empty; write '{most:.0f}..{least:.0f}'")
    return Limit(meanings[dimension], most, least)


def _parse(value: object) -> tuple[str, float | None, float | None]:
    """Return a limit's dimension, lower bound and upper bound; dimension "" if the value has no meaning."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return "count", None, value
    if not isinstance(value, str):
        return "", None, None
    text = value.strip()
    if _COUNT.fullmatch(text):
        return "count", None, int(text)
    if match := _THOUSANDS.fullmatch(text):
        return "count", None, round(float(match[1]) * (1000 if match[2] == "k" else 1_000_000))
    if (match := _RANGE.fullmatch(text)) and (match[1] or match[2]):
        return "count", int(match[1] or 0), int(match[2]) if match[2] else None
    try:
        quantity = units.parse(text)
    except UsageError:
        return "", None, None
    return quantity.dimension, None, quantity.value


def _names(key: str, value: object) -> tuple[str, ...]:
    some = isinstance(value, (list, tuple)) and (value or key == "only")
    if some and all(isinstance(name, str) and name for name in value):  # type: ignore[attr-defined]  # a sequence
        if of_dtype := next((name for name in value if has_dtypes(name)), None):  # type: ignore[attr-defined]
            limit = f"{{{of_dtype!r}: ...}}"
            raise UsageError(
                f"op_budget({key}={value!r}): takes op names without dtypes; limit dtypes with op_budget({limit})"
            )
        return tuple(dict.fromkeys(value))  # type: ignore[call-overload]
    raise UsageError(f"op_budget({key}={value!r}): write a list of op names, such as {key}=['MatMul', 'Softmax']")


def _of_window(profile: OpProfile, limit: Limit) -> Sequence[float]:
    values, quantity = limit.what.of_whole(profile), limit.what
    why = quantity.unknown(profile) if values is None and quantity.unknown else ""
    if values is None and quantity.name == "bytes":
        why = _why_no_bytes(profile, profile.without_bytes(None))
    return _measured(profile, limit, None, values, why)


def _left_behind(profile: OpProfile, kind: str, limit: Limit) -> Sequence[float]:
    """Return how many things of a *kind* each call leaves behind. Raises UsageError for an unknown one."""
    _of_window(profile, limit)
    number = sum(number for name, number in profile.left_behind.items() if matching(kind, [name]))
    if not number and kind not in OPEN_THINGS.values() and not is_glob(kind) and not is_class(kind):
        near = errors.suggestion(kind, [*profile.left_behind, *OPEN_THINGS.values()]) or "."
        raise UsageError(
            f"unknown type {kind!r} in {OF_TYPE}{kind}: nothing of it was left behind, and no imported module has"
            f" such a class{near}"
        )
    return (number,)


def _why_no_bytes(profile: OpProfile, raws: Sequence[str]) -> str:
    """Return why bytes are unknown, naming the *raws* without bytes; empty if there are none."""
    of = ", ".join(raws[:5]) + (f" and {len(raws) - 5} more" if len(raws) > 5 else "")
    return f"{_frameworks(profile)} does not report the bytes of {of} here" if raws else ""


def _frameworks(profile: OpProfile) -> str:
    return " + ".join(name for name, _ in profile.environment.frameworks) or "the profile"


def _of_op(profile: OpProfile, stats: OpStats, limit: Limit, why: str = "") -> Sequence[float]:
    if limit.what.of_op is not None:
        return _measured(profile, limit, stats.op, limit.what.of_op(stats), why)
    times, totals = (_measured(profile, limit, stats.op, each.device_ns) for each in (stats, profile.total))
    return [ns / total if total else 0.0 for ns, total in zip(times, totals)]


def _measured(
    profile: OpProfile, limit: Limit, op: str | None, values: Sequence[float] | None, why: str = ""
) -> Sequence[float]:
    if limit.what.is_noisy and profile.environment.device == "cpu" and profile.disturbed:
        raise UsageError(
            f"the limit on {limit.what.of(op)} ({limit}) cannot be checked: {'; '.join(profile.disturbed)}"
        )
    if values is None:
        why = why or f"{_frameworks(profile)} does not measure it here"
        raise UsageError(f"the limit on {limit.what.of(op)} ({limit}) cannot be checked: {why}")
    return values


def _beyond_only(
    profile: OpProfile, only: Sequence[str], aliases: Mapping[str, str] | None, known: Collection[str]
) -> dict[str, int]:
    """Return the calls of the ops that are not allowed."""
    allowed = _as_ops(profile, only, aliases, known)
    return {
        stats.op: stats.most_calls
        for stats in profile.ops
        if not any(stats.op == name or fnmatchcase(stats.op, name) for name in allowed)
    }


def _beyond_top(
    profile: OpProfile, top: Sequence[str], aliases: Mapping[str, str] | None, known: Collection[str]
) -> Iterator[Broken]:
    expected = _as_ops(profile, top, aliases, known)
    if profile.total.device_ns is None:
        raise UsageError(f"the limit top={list(top)!r} cannot be checked: device times are not measured here")
    actual = [stats.op for stats in profile.top(len(set(expected)))]
    if set(actual) != set(expected):
        now, short = (f"top {len(top)} ops {by}{', '.join(actual)}" for by in ("by device time: ", ""))
        yield Broken("top", None, "top", now, ", ".join(top), short)


def _as_ops(
    profile: OpProfile, given: Sequence[str], aliases: Mapping[str, str] | None, known: Collection[str]
) -> list[str]:
    """Return the canonical ops of the *given* names. Raises UsageError for an unknown name."""
    for name in given:
        if not profile.why_unmeasured(name):
            profile.stats(name, aliases, known)
    return [names.meaning(name, aliases=aliases).op for name in given]
