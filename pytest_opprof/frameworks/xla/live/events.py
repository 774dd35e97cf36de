"""Convert kernels that ran into the events of a log.

A kernel that is one op (and views) is an event of that op. Any other is an event under its own name, which has the time
and reads and writes memory; the ops in it are events inside that have no time and touch no memory. In addition, each
kernel is one `KERNEL`, each call of a program one `PROGRAM`, both without a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....errors import BackendError
from ....ops.names import Kind
from ....ops.signature import Signature
from ....ops.vocabulary import KERNEL, PROGRAM
from ....profile.columns import ABSENT
from ....profile.events.event_log import EventLog
from ....sites.chains import UNKNOWN, Frame
from ....sites.code import Kind as CodeKind
from ....sites.code import kinds
from ..hlo_module import Frame as Place
from ..hlo_module import HloModule
from ..kernels import Kernel, Op, TooManyOpsError, kernel
from ..opcodes import OTHERS, SORT
from .fence import MODULE
from .programs import Known, Program, Programs
from .recording import Execution, Ran, Recording
from .traced import Traced

COMPILE = "jax::compile"
# Raw names that `ops.tables` lacks and that are no mistake in a budget even if they did not run.
NAMES = frozenset([COMPILE, PROGRAM, KERNEL]) | OTHERS
PROGRAM_OPS, TEMPORARY_MEMORY = "program_ops", "temporary_memory"
_NOTHING = Signature((), (), (), ())


class Compiled(NamedTuple):
    """A compiled program."""

    interval: int
    ns: int
    function: str
    """``jit(f)``."""
    site: int
    """The source line that caused it: a node of chains."""


def add_compiled(log: EventLog, compiled: Iterable[Compiled]) -> None:
    """Add an event for each *compiled* program.

    It counts by its name, and is no op of the program, because the first test to use a function depends on the order of
    tests.
    """
    name = log.name(COMPILE, kind=Kind.WRAPPER, signature=_NOTHING)
    for interval, ns, function, site in compiled:
        event = log.add(name, ns, interval=interval)
        if site:
            log.asked_at(event, site)
        log.remark(f"JAX compiled {function}", interval)


class _Rows(NamedTuple):
    """The events of a kernel: its marker, the event with time and memory, and the events inside that."""

    columns: NDArray[np.int64]
    """Rows x 4: the name, the row of the event around it (-1: none), bytes and FLOPs."""
    lines: Sequence[Sequence[Frame]]
    """The source lines of each row in the compiled program, the innermost first."""


def fill(
    log: EventLog,
    recording: Recording,
    programs: Programs,
    traced: Traced,
    compiled: Iterable[Compiled],
    moments: bool = False,
) -> None:
    """Add the events of a checked *recording* to *log*, and the *compiled* programs; *moments*: also record start
    times.

    Raises BackendError for a program that is no longer known, and for one whose ops cannot be counted.
    """
    log.knows_flops = True
    if log.chains is not None and recording.lacks_threads:
        log.lacks_lines_of_threads()
    called = _marker(log, PROGRAM)
    for call in recording.calls:
        if not recording.is_in_fence(call):
            event = log.add(called, ABSENT, -1, bisect_right(recording.marks, call.start), nbytes=0)
            if line := recording.line_of(call):
                log.asked_at(event, line)
            if moments:
                log.ran(event, call.start, call.end, f"thread {call.thread}")
    add_compiled(log, compiled)
    ran = [each for each in recording.ran if each.execution.program.name != MODULE]
    names: defaultdict[Program, set[str]] = defaultdict(set)
    for each in ran:
        names[each.execution.program].add(each.name)
    known = programs.find(names)
    rows: dict[tuple[Program, str], _Rows | None] = {}
    for program, compiled_as in known.items():
        for name in names[program]:
            found = _kernel(log, compiled_as.module, name, names[program])
            rows[program, name] = found and _rows(log, found, compiled_as, is_all=len(names[program]) == 1)
    log.marked_ns = recording.marks
    _append(log, _calls(ran, {program: each.module for program, each in known.items()}), rows, recording, moments)
    _weigh(log, ran, known, traced, recording)


def _weigh(
    log: EventLog, ran: Sequence[Ran], known: Mapping[Program, Known], traced: Traced, recording: Recording
) -> None:
    """Record for each step the traced ops of the programs that ran, each once, and the most memory that one needs."""
    begins = [0, *(each for each in range(1, log.interval + 1) if each not in log.range_marks)]
    callers = {} if log.chains is None else recording.callers()
    temporary = dict.fromkeys(range(log.interval + 1), 0)
    ops: dict[int, int | None] = dict.fromkeys(range(log.interval + 1), 0)
    seen = set[tuple[int, Program]]()
    for each in ran:
        program, interval = each.execution.program, bisect_right(recording.marks, each.start)
        temporary[interval] = max(temporary[interval], known[program].temporary)
        step = begins[bisect_right(begins, interval) - 1]  # a range of the user's does not split it
        if (step, program) in seen:
            continue
        seen.add((step, program))
        more, before = traced.ops(known[program].module), ops[step]
        ops[step] = None if more is None or before is None else before + more
        caller = callers.get(each.execution.run, UNKNOWN)
        for _ in range(more or 0 if caller else 0):
            log.fact_at(PROGRAM_OPS, step, caller, is_backward=False)
    log.counts[TEMPORARY_MEMORY] = temporary
    log.counts[PROGRAM_OPS] = {step: number for step, number in ops.items() if number is not None}


def _kernel(log: EventLog, module: HloModule, name: str, ran: set[str]) -> Kernel | None:
    try:
        found = kernel(module, name, ran)
    except TooManyOpsError as error:
        raise BackendError(
            f"{error}. Make the loop shorter, or leave the test out with @pytest.mark.opprof(False)"
        ) from None
    for guess in found.guesses if found else ():
        log.remark(f"{module.name} runs {guess} in one kernel: counted once, as its number of runs is unknown")
    return found


def _rows(log: EventLog, found: Kernel, program: Known, is_all: bool) -> _Rows:
    """Return the rows of a kernel of a *program*; *is_all*: the program ran nothing else."""
    inside = list(found.ops)
    if found.alone is None:
        main = log.name(found.name, op=found.name, signature=found.signature)
        in_order = [None, None, *inside]
    else:
        op = inside.pop(found.alone)
        main = _name(log, op, is_part=not is_all)
        in_order = [None, op, *inside]
    names = [_marker(log, KERNEL), main, *(_name(log, op, is_part=True) for op in inside)]
    around, nbytes = [-1, -1, *[1] * len(inside)], [0, ABSENT if found.nbytes is None else found.nbytes]
    flops = [ABSENT if op is None or op.flops is None else op.flops for op in in_order]
    columns = np.array([names, around, [*nbytes, *[0] * len(inside)], flops], np.int64).T
    frames = [] if log.chains is None else [(), (in_order[1] or found).frames, *(op.frames for op in inside)]
    lines = [_lines(each, program) for each in frames]
    return _Rows(columns, lines)


def _lines(frames: Sequence[Place], program: Known) -> Sequence[Frame]:
    """Return the user's source lines of an instruction: the lines inside the compiled function.

    JAX keeps one program for calls at several lines, with the lines of the first call. The lines that ran when XLA
    compiled it are therefore left out; `Recording.callers` finds the caller. Up to jax 0.8 it also keeps the first
    call's lines for a function traced inside, perhaps from another test: if they do not end in the compiling lines,
    none of them is valid.
    """
    lines = [Frame(*each) for each in frames if kinds[each.file] is CodeKind.TRACED]
    stack = [each for each in program.stack if kinds[each[0]] is CodeKind.TRACED]
    places = [(line.file, line.function) for line in lines]
    for inside in range(len(places)):
        if places[inside:] == stack[: len(places) - inside]:
            return lines[:inside]
    return ()


def _marker(log: EventLog, name: str) -> int:
    return log.name(name, op=name, signature=_NOTHING)


def _name(log: EventLog, op: Op, is_part: bool) -> int:
    """Return the name of an op; *is_part*: of a larger one, where a cast of a number counts by its raw name only."""
    kind = Kind.WRAPPER if is_part and op.is_number_cast else None
    return log.name(op.raw, op=op.op, kind=kind, signature=op.signature)


def _append(
    log: EventLog,
    ran: Sequence[Ran],
    rows: Mapping[tuple[Program, str], _Rows | None],
    recording: Recording,
    moments: bool,
) -> None:
    """Append the rows of all kernels in *ran*, each with its time, its interval and its place in the log."""
    kept = [(each, found) for each in ran if (found := rows[each.execution.program, each.name]) is not None]
    if not kept:
        return
    # A loop runs few kernels many times, of which each has its rows in one table.
    kinds = {id(found): found for _, found in kept}
    number = dict(zip(kinds, range(len(kinds))))
    begins = np.cumsum([0, *(len(found.columns) for found in kinds.values())])
    kind = np.array([number[id(found)] for _, found in kept])
    length = np.diff(begins)[kind]
    first = np.cumsum(length) - length
    row = np.arange(length.sum()) - np.repeat(first, length)
    name, around, nbytes, flops = np.concatenate([found.columns for found in kinds.values()])[
        np.repeat(begins[kind], length) + row
    ].T
    duration = np.full(len(row), ABSENT, np.int64)
    duration[first + 1] = [each.ns for each, _ in kept]
    interval = np.searchsorted(recording.marks, [each.start for each, _ in kept], side="right")
    base = len(log)
    parent = np.where(around < 0, -1, np.repeat(base + first, length) + around)
    log.extend(name, duration, parent, np.repeat(interval, length), nbytes, flops)
    if moments:
        for event, (each, _) in zip((base + first + 1).tolist(), kept):
            log.ran(event, each.start, each.end, f"thread {each.thread}")
    if log.chains is None:
        return
    callers, nodes = recording.callers(), dict[tuple[int, int], list[int]]()
    for event, (each, found) in zip((base + first).tolist(), kept):
        caller = callers.get(each.execution.run, UNKNOWN)
        if (asked := nodes.get((id(found), caller))) is None:
            asked = nodes[id(found), caller] = [log.chains.of_lines(lines, caller) for lines in found.lines]
        for row_of, node in enumerate(asked):
            if node != UNKNOWN:
                log.asked_at(event + row_of, node)


def _calls(ran: Sequence[Ran], modules: Mapping[Program, HloModule]) -> list[Ran]:
    """Return *ran* with one row for each call of a kernel.

    XLA copies the operands of a sort one by one, with kernels that have the name of the sort.
    """
    sorts: defaultdict[tuple[Execution, str], list[Ran]] = defaultdict(list)
    others: list[Ran] = []
    for each in ran:
        instruction, _ = modules[each.execution.program].by_name[each.name]
        (sorts[each.execution, each.name] if instruction.opcode == SORT else others).append(each)
    if not sorts:
        return others
    times = Counter((each.execution, each.name) for each in others)
    for (execution, name), pieces in sorts.items():
        module = modules[execution.program]
        _, computation = module.by_name[name]
        # As often as the other kernels of the loop's body.
        beside = [times[execution, each.name] for each in module.computations[computation].values()]
        calls = 1 if computation == module.entry else min(filter(None, beside), default=len(pieces))
        size = max(len(pieces) // calls, 1)
        for index in range(0, len(pieces), size):
            together = pieces[index : index + size]
            others.append(together[0]._replace(ns=sum(each.ns for each in together), end=together[-1].end))
    return sorted(others)
