"""StableHLO text: an XLA program before compilation, ``jit(f).lower(...).as_text()``. Best for budgets, since it is the
same on every machine.

It has the ops and no times: ops are counted without running the program. A file is an MLIR module with functions,
``@main`` and the functions it calls. An op is ``%name = dialect.op operands, attributes : types``:
``%0 = stablehlo.convert %arg4 : (tensor<32x64xf32>) -> tensor<32x64xbf16>``. One type alone is that of the result and
of all operands.

A function is counted as often as it is called. The body of a loop counts once, and so does every branch. The function
that a reduce, a sort or a scatter applies to single elements is part of that op. No ops: constants, tuples, calls,
loops and branches. The type is the op without its dialect ``stablehlo``, ``mhlo`` or ``chlo``; other dialects stay in
it. FLOPs are known only for dot products. Seen: jax 0.10.2, also with ``debug_info=True``.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.saved import SavedProfile
from ...files.format import Format, Options
from ...files.place import Place
from ...files.programs import (
    ONCE,
    STRING,
    Function,
    Size,
    Types,
    dot_operations,
    executed,
    lines,
    op_record,
)
from ..opcodes import REDUCTIONS

_BEGIN = re.compile(rb"\s*(?:(?://|#)[^\n]*\n\s*)*module\b[^\n]*\{")
_DIALECT = re.compile(rb"\b(?:stablehlo|mhlo|chlo|func\.func)\b")
_QUOTED_OP = re.compile(r'"([a-z]\w*\.[\w.]+)"(?=\()')
_FUNCTION = re.compile(r"\s*func\.func\b[^@]*@([\w.$\-]+)")
_OP = re.compile(r"\s*(?:(%[\w.\-]+)(?![\w.\-])[^=]*= )?(\w+)\.(\w+)\b")
_CALL = re.compile(r"(?:^\s*|= |func\.)call @([\w.$\-]+)")
_VALUE = re.compile(r"%[\w.\-]+(?:#\d+)?")
_TENSOR = re.compile(r"tensor<((?:(?:\d{1,18}|\?)x)*)([a-zA-Z]\w*(?:<\w+>)?)")
_APPLIES = re.compile(r"\bapplies (?:stablehlo|mhlo)\.(\w+)")
_CONTRACTED = re.compile(r"\bcontracting_dims = \[([0-9, ]*)\] x ")
_OURS = frozenset(["stablehlo", "mhlo", "chlo"])
_NO_DIALECTS = frozenset(["func", "sdy", "builtin", "module"])
_NO_OPS = frozenset(
    """return constant while case if tuple get_tuple_element optimization_barrier after_all create_token""".split()
)
_ON_ELEMENTS = frozenset("reduce reduce_window scatter select_and_scatter sort map all_reduce reduce_scatter".split())
_MOST_CACHED = 2000
_ONCE = {"while": "a loop", "case": "a branch", "if": "a branch"}


def recognises(place: Place) -> bool:
    """Return True if the text begins like a module, and has functions or ops of XLA."""
    return _BEGIN.match(place.head) is not None and _DIALECT.search(place.head) is not None


def read(place: Place, options: Options) -> SavedProfile:
    """Return the ops. `programs.Size` bounds their memory and that of a line. Raises TraceError."""
    module = _Module(place)
    for number, line in enumerate(lines(place), 1):
        module.take(_plain(line), number)
    module.close()
    return SavedProfile(
        source="StableHLO text (static: no run)",
        environment=Environment((("jax", ""),), "", ""),
        records=executed(place, module.functions, "main"),
        remarks=tuple(ONCE.format(what) for what in sorted(module.once)),
    )


def _plain(line: str) -> str:
    """Return *line* without comments and quoted texts; op names in quotes are kept."""
    return STRING.sub("", _QUOTED_OP.sub(r"\1", line)).partition(" // ")[0]


class _Module:
    def __init__(self, place: Place) -> None:
        self.functions: dict[str, Function] = {}
        self.once: set[str] = set()
        self._place = place
        self._function = Function()
        self._regions: list[tuple[bool, str]] = []
        """The open regions: whether a region works on single elements, and the op whose types stand after it."""
        self._size = Size()

    def take(self, line: str, number: int) -> None:
        """Read the next line."""
        opened = line.count("{") - line.count("}")
        begin = line.lstrip()
        if opened == -1 and begin.startswith("}") and self._regions:
            _, waiting = self._regions.pop()
            if waiting:
                self._add(f"{waiting}{line}", number)
        elif opened not in (0, 1):
            raise self._error(number, f"brackets that do not match: {begin[:80]!r}")
        else:
            on_elements = begin.startswith("reducer(") or (bool(self._regions) and self._regions[-1][0])
            region = (True, "") if on_elements else self._line(line, number, opened)
            if opened:
                self._regions.append(region)

    def _line(self, line: str, number: int, opened: int) -> tuple[bool, str]:
        """Read a line that is not inside an op; return the entry of `_regions` for the region that it begins."""
        if match := _FUNCTION.match(line):
            self._function = self.functions.setdefault(match[1], Function())
        elif match := _CALL.search(line):
            self._function.called[match[1]] += 1
        elif match := _OP.match(line):
            _, dialect, op = match.groups()
            if op in _ONCE:
                self.once.add(_ONCE[op])
            if dialect in _NO_DIALECTS or op in _NO_OPS:
                return False, ""
            if opened:
                return op in _ON_ELEMENTS, line
            self._add(line, number)
        elif line.lstrip().startswith("%"):
            raise self._error(number, f"is not an op: {line.strip()[:80]!r}")
        return False, ""

    def close(self) -> None:
        """Raise TraceError if the end is missing."""
        if self._regions or "main" not in self.functions:
            what = "in the middle of a function" if self._regions else "without a function @main"
            raise TraceError(f"{self._place}: ends {what}. Was it copied whole?")

    def _error(self, number: int, what: str) -> TraceError:
        return TraceError(f"{self._place}: line {number}: {what}. Was it copied whole?")

    def _add(self, line: str, number: int) -> None:
        if excess := self._size.exceeded(line):
            raise self._error(number, excess)
        name, dialect, op = next(_OP.finditer(line)).groups("")
        head, _, types = line.partition(" loc(")[0].rpartition(" : ")
        signature = _signature if len(types) < _MOST_CACHED else _signature.__wrapped__
        operands = len(_VALUE.findall(head.partition(" = ")[2] if name else head))
        record = op_record(name or op, op if dialect in _OURS else f"{dialect}.{op}", *signature(types, operands))
        if applied := _APPLIES.search(head):
            record = record._replace(op=REDUCTIONS.get(applied[1], ""))
        if op in ("dot_general", "dot") and (contracted := _CONTRACTED.search(head)):
            record = record._replace(computation=dot_operations(record, contracted[1]))
        self._function.records.append(record)


@lru_cache(4096)
def _signature(text: str, operands: int) -> tuple[Types, Types]:
    """Return the types of operands and results in ``(tensor<2xf32>) -> tensor<2xbf16>``; one type alone is for all."""
    left, arrow, right = text.partition("->")
    if arrow:
        return _types(_TENSOR.findall(left)), _types(_TENSOR.findall(right))
    tensors = _TENSOR.findall(left)
    # A select has two types: one of the condition, one of all others.
    return _types((tensors + tensors[-1:] * operands)[:operands]), _types(tensors[-1:])


def _types(tensors: list[tuple[str, str]]) -> Types:
    dtypes = tuple(dtype for _, dtype in tensors)
    if any("?" in shape for shape, _ in tensors):
        return Types(dtypes)
    return Types(dtypes, tuple(tuple(map(int, shape.split("x")[:-1])) for shape, _ in tensors))


FORMAT = Format("StableHLO text (XLA)", recognises, read)
