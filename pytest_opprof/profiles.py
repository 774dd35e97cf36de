"""The commands of ``opprof`` that work on saved profiles: show, diff, check, convert, formats."""

from __future__ import annotations

import argparse
import gc
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import listing, names, query, traces
from .errors import OpprofError, TraceError, UsageError
from .query import Question, Side
from .trace import KernelRecord, OpTrace
from .traces.place import Place
from .units import format_bytes, format_ns, format_share, parse, parse_share

if TYPE_CHECKING:
    from .budgets import Budget

_NOT_OF_KERNELS = (
    *("type", "input_dtype", "min_time", "max_time", "aggregate_by", "aggregate"),
    *("copy_time", "only_ops"),
)
_LISTED = 8
"""Ops that an answer without rows names."""
_SHOWS_PROGRESS = 20_000_000
"""Bytes: what takes less than about a tenth of a second needs no progress."""


def add(commands: Any) -> None:
    """Add the commands to the parser's *commands*. They return whether they found something."""
    show = commands.add_parser("show", help="show what a saved profile holds, op by op", description=_SHOW)
    show.add_argument("file", type=Path, help="a profile, or a folder with one")
    _add_source(show)
    _add_question(show)
    show.set_defaults(run=_show)

    diff = commands.add_parser("diff", help="compare two saved profiles; exit 1 when the second is worse")
    diff.add_argument("base", type=Path, help="the profile before")
    diff.add_argument("now", type=Path, help="the profile after")
    _add_source(diff)
    diff.add_argument("--base-steps", metavar="STEPS", help="other steps of the profile before")
    diff.add_argument("--base-rank", metavar="N", help="another rank of the profile before")
    diff.add_argument("--tolerance", default="10%", help="how much slower is slower (default: 10%%)")
    diff.add_argument("--floor", default="20 us", help="a smaller change of time is none (default: 20 us)")
    diff.add_argument("--by", choices=("type", "name", "shape"), default="type", help="what an op is (default: type)")
    diff.add_argument("-t", "--top", type=int, default=10, metavar="K", help="unchanged ops to show (default: 10)")
    diff.add_argument("--format", choices=("table", "markdown", "json"), default="table")
    diff.set_defaults(run=_diff)

    check = commands.add_parser("check", help="judge a saved profile by a budget; exit 1 when it is exceeded")
    check.add_argument("file", type=Path)
    _add_source(check)
    check.add_argument(
        "--budget",
        action="append",
        required=True,
        metavar="KEY=LIMIT",
        help="a limit as in the op_budget mark: Cast=10, MatMul=3..5, device_time=5ms, 'aten::*conv*=0'; repeatable",
    )
    check.add_argument("--allow-inferred", action="store_true", help="judge op types that were guessed from names")
    check.set_defaults(run=_check)

    convert = commands.add_parser("convert", help="write a profile in opprof's own format, or as a Chrome trace")
    convert.add_argument("file", type=Path)
    _add_source(convert)
    convert.add_argument("-o", "--output", type=Path, required=True, help="OUT.json, or OUT.trace.json for a viewer")
    convert.set_defaults(run=_convert)

    formats = commands.add_parser("formats", help="list the profiles that can be read")
    formats.set_defaults(run=_formats)


_SHOW = "Filters do not change the totals above the table. Times have units (100us, 1.5ms); bare numbers are seconds."


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", metavar="FORMAT", help="read it as this format, whatever it looks like")
    parser.add_argument("--rank", metavar="N", help="which rank (or 'all'), of a folder with several")
    parser.add_argument("--steps", metavar="STEPS", help="only these steps: 2-4 or 2,3,4")
    parser.add_argument("--partial", action="store_true", help="read what is whole of a file that was cut")


def _add_question(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-t",
        "--top",
        type=int,
        default=3,
        metavar="K",
        help="rows to show (default: 3; 0 is all)",
    )
    add("--name", metavar="REGEX", help="ops whose name this is found in, anywhere: '^conv' anchors it")
    add("--type", action="append", default=[], metavar="OP", help="ops of this type, canonical or raw; repeatable")
    add("--input-dtype", default="", metavar="DTYPE", help="ops with an input of this dtype")
    add("--order-by", default="time", metavar="[+]COLUMN", help="from the largest; + from the smallest (default: time)")
    add("--aggregate-by", choices=("type", "op"), help="one row for each raw type or canonical op")
    add("--aggregate", choices=("sum", "max", "min", "mean"), help="how (default: sum); alone: one row for all")
    add("--time", choices=("end", "kern"), default="end", help="until the op's end, or only until its first kernel")
    add("--min-time", metavar="TIME", help="ops of at least this time")
    add("--max-time", metavar="TIME", help="ops of at most this time")
    add("--side", choices=("device", "host", "both"), default="device", help="whose time (default: device)")
    add("--kernels", action="store_true", help="the list of kernels instead: calls, total, average, launched by")
    add("--copy-time", action="store_true", help="also the time of the copies among the ops")
    add("--only-ops", action="store_true", help="only name, type and id, an op a line")
    add("--format", choices=listing.FORMATS, default="table")


def _show(arguments: argparse.Namespace) -> bool:
    answers = [
        _answer(found, trace, arguments)
        for found, trace in _read(arguments, arguments.file, arguments.rank, arguments.steps)
    ]
    if arguments.format == "json":
        print(listing.document(answers[0] if arguments.rank != "all" else {"ranks": answers}))
    elif text := (listing.one_csv(answers) if arguments.format == "csv" else "\n\n".join(filter(None, answers))):
        print(text)
    return False


def _answer(found: traces.Found, trace: OpTrace, arguments: argparse.Namespace) -> Any:
    """Return what is to be printed of one profile: text, or the JSON object."""
    whose = {"profile": str(found.place), "rank": found.rank} if arguments.rank == "all" else {}
    if arguments.kernels:
        return _kernels(trace, arguments, whose)
    sides: tuple[Side, ...] = ("device", "host") if arguments.side == "both" else (arguments.side,)
    questions = [_question(arguments, side) for side in sides]
    for question in questions:
        _check_known(trace, question)
    for doubt in _doubts(trace, questions[0]):
        _say(found, doubt)
    if arguments.format in ("table", "markdown") and not arguments.only_ops:
        return "\n".join([*([str(found)] if whose else []), *_text(trace, questions, arguments)])
    columns = listing.NAMES if arguments.only_ops else listing.COLUMNS
    answers = [query.answer(trace, question) for question in questions]
    for question, lines in zip(questions, answers):
        if not lines:
            _say(found, _nothing(trace, question))
    if arguments.format == "json":
        return {
            **whose,
            **_document(trace, questions, [listing.rows_json(lines, columns) for lines in answers], arguments),
        }
    if arguments.format == "csv":
        marked = [{**whose, **({"side": side} if len(sides) > 1 else {})} for side in sides]
        return listing.one_csv([listing.rows_csv(lines, mark, columns) for lines, mark in zip(answers, marked)])
    return listing.names_text([line for lines in answers for line in lines], arguments.format)


def _question(arguments: argparse.Namespace, side: Side) -> Question:
    order_by, ascending = query.ordering(arguments.order_by)
    return Question(
        side=side,
        time=arguments.time,
        name=_pattern(arguments.name),
        types=tuple(arguments.type),
        input_dtype=arguments.input_dtype,
        least_ns=_time(arguments.min_time, "--min-time"),
        most_ns=_time(arguments.max_time, "--max-time"),
        aggregate_by=arguments.aggregate_by or ("all" if arguments.aggregate else ""),
        aggregate=arguments.aggregate or "sum",
        order_by=order_by,
        ascending=ascending,
        top=arguments.top,
    )


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"--name {text!r} is no regular expression: {error}") from None


def _time(text: str | None, flag: str) -> float | None:
    """Return ns of a time with a unit, or of bare seconds."""
    if text is None:
        return None
    try:
        return float(text) * 1e9
    except ValueError:
        quantity = parse(text)
    if quantity.dimension != "time":
        raise UsageError(f"{flag} {text!r}: write a time, such as 100us")
    return quantity.value


def _check_known(trace: OpTrace, question: Question) -> None:
    """Raise UsageError for a question that the profile cannot answer: an empty table would say something else."""
    if query.is_timed(trace) and not query.has_times(trace, question.side):
        other = "host" if question.side == "device" else "device"
        raise UsageError(f"{trace.source}: has no {question.side} times; ask for those of the {other}: --side {other}")
    if question.time == "kern" and not any(
        query.launch_ns(record, question.side) is not None for record in trace.records
    ):
        raise UsageError(f"{trace.source}: does not tell when an op's first kernel began (--time kern)")
    if question.input_dtype and not query.input_dtypes(trace):
        raise UsageError(f"{trace.source}: has no dtypes, so --input-dtype cannot be answered")


def _doubts(trace: OpTrace, question: Question) -> Iterator[str]:
    """Yield what an answer may not be taken for: of a misspelt name, or of a type that the source cannot tell."""
    for name in question.types:
        if _is_untold(trace, name):
            yield f"--type {name}: {trace.source} does not tell {name} from other ops, so there may be more"
        elif not query.is_present(trace, name) and not names.is_known(name):
            known = {*names.canonical_ops(), *_ops(trace, question.side), *(record.type for record in trace.records)}
            yield f"--type: {names.unknown(name, known)}"
    if question.input_dtype and not names.is_dtype(question.input_dtype):
        yield f"--input-dtype: {names.unknown(question.input_dtype, query.input_dtypes(trace), 'dtype')}"


def _document(
    trace: OpTrace, questions: Sequence[Question], rows: Sequence[Any], arguments: argparse.Namespace
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "source": trace.source,
        "environment": trace.environment.full,
        "steps": list(trace.steps),
        "device_time_ns": query.total(trace, "device"),
        "host_time_ns": query.total(trace, "host"),
        "communication_ns": query.communication(trace),
        "step_ns": trace.step_ns and list(trace.step_ns),
        "peak_memory": trace.peak_memory,
        "remarks": list(trace.remarks),
        **dict(zip(("rows", "host_rows"), rows)),
    }
    if arguments.copy_time:
        time = query.copy_time(trace, questions[0])
        document["copy_time"] = {"calls": time.calls, "total_ns": time.total_ns, "launch_ns": time.launch_ns}
    return document


def _text(trace: OpTrace, questions: Sequence[Question], arguments: argparse.Namespace) -> Iterator[str]:
    yield f"{trace.source}  [{trace.environment}]"
    for side in ("device", "host"):
        ns = query.total(trace, side)
        yield f"total {side} time: {'-' if ns is None else format_ns(ns, 4)}"
    if ns := query.communication(trace):
        yield f"communication, beside it: {format_ns(ns, 4)}"
    if trace.step_ns and len(trace.step_ns) == 1:
        yield f"wall time of the step: {format_ns(trace.step_ns[0], 4)}"
    elif trace.step_ns:
        least, most = (format_ns(of(trace.step_ns), 4) for of in (min, max))
        yield f"wall time of each of {len(trace.steps)} steps: {least} to {most}"
    if trace.peak_memory is not None:
        yield f"peak memory: {format_bytes(trace.peak_memory, 4)}"
    if arguments.copy_time:
        yield _copy_line(query.copy_time(trace, questions[0]))
    for question in questions:
        lines = query.answer(trace, question)
        yield from map(_selected, query.selection(trace, question))
        if any(line.calls == 0 for line in lines):
            yield "0 calls: a part of calls that are counted in another row"
        yield ""
        yield listing.rows_table(lines, arguments.format) if lines else _nothing(trace, question)


def _selected(line: query.Line) -> str:
    what = "selected" if line.type == "all" else f"selected {line.type}"
    share = "" if line.share is None else f" ({format_share(line.share)})"
    time = "" if line.time_ns is None else f", {format_ns(line.time_ns, 4)}{share}"
    return f"{what}: {line.calls} call{'s' if line.calls != 1 else ''}{time}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f". There are {', '.join(names[:_LISTED])}{more}" if names else ""


def _nothing(trace: OpTrace, question: Question) -> str:
    """Return that nothing matches, and what there is."""
    dtypes = f" Input dtypes: {', '.join(query.input_dtypes(trace))}." if question.input_dtype else ""
    return f"no op of the {question.side} matches{_listed(_ops(trace, question.side))}.{dtypes}"


def _ops(trace: OpTrace, side: Side) -> list[str]:
    """Return the ops, the most expensive first."""
    return [line.op or "" for line in query.answer(trace, Question(side=side, aggregate_by="op"))]


def _copy_line(time: query.CopyTime) -> str:
    if not time.calls or time.total_ns is None:
        return "copies: none"
    launch = "" if time.launch_ns is None else f", of it {format_ns(time.launch_ns)} waiting and launching"
    return f"copies: {time.calls}, {format_ns(time.total_ns)}, {format_ns(time.total_ns / time.calls)} each{launch}"


def _kernels(trace: OpTrace, arguments: argparse.Namespace, whose: Mapping[str, object]) -> Any:
    if trace.kernels is None:
        raise UsageError(f"{trace.source}: has no kernels beside its ops; opprof show without --kernels lists those")
    given = vars(arguments)
    if other := [flag for flag in _NOT_OF_KERNELS if given[flag] not in ([], "", None, False)]:
        flags = ", ".join(f"--{flag.replace('_', '-')}" for flag in other)
        raise UsageError(f"--kernels is a list of its own: it takes --name, -t, --steps and --format, not {flags}")
    pattern = _pattern(arguments.name)
    joined: dict[tuple[str, str, str], KernelRecord] = {}
    for kernel in trace.kernels:
        if pattern is None or pattern.search(kernel.name):
            key = kernel.name, kernel.launched_by, kernel.place
            sum_ = joined.get(key, kernel._replace(calls=0, device_ns=0))
            joined[key] = kernel._replace(calls=sum_.calls + kernel.calls, device_ns=sum_.device_ns + kernel.device_ns)
    kernels = sorted(joined.values(), key=lambda kernel: -kernel.device_ns)
    kernels = kernels[: arguments.top] if arguments.top else kernels
    if arguments.format == "json":
        return {**whose, "source": trace.source, "kernels": [listing.kernel_json(kernel) for kernel in kernels]}
    if arguments.format == "csv":
        return listing.kernels_csv(kernels, whose)
    return "\n".join([*map(str, list(whose.values())[:1]), listing.kernels_text(kernels, arguments.format)])


def _diff(arguments: argparse.Namespace) -> bool:
    # Imported here, with NumPy behind them: to show a profile needs neither.
    from . import reports
    from .baselines import Entry
    from .compare import compare
    from .judge import Rule

    base_rank, base_steps = arguments.base_rank or arguments.rank, arguments.base_steps or arguments.steps
    base = _read_one(arguments, arguments.base, base_rank, base_steps, "diff")
    now = _read_one(arguments, arguments.now, arguments.rank, arguments.steps, "diff")
    floor = _time(arguments.floor, "--floor")
    rule = Rule(parse_share(arguments.tolerance, "--tolerance"), 1, int(floor or 0), 0.0025)
    profiles = [trace.profile(by=arguments.by) for trace in (base, now)]
    before, after = (Entry.of(profile, _MACHINE) for profile in profiles)
    diff = compare(before, after, _MACHINE, rule)
    if diff.times:
        diff = diff.unjudged("one of the profiles has no times")
    window = reports.WindowReport(reports.BODY, profiles[1], diff=diff)
    if arguments.format == "json":
        print(listing.document(_diff_document(base, now, diff)))
    else:
        style = "github" if arguments.format == "markdown" else "simple"
        print("\n".join(map(listing.clean, _diff_text(base, now, window, arguments.top, style))))
    worse = any(row.verdict.is_regression for row in (*diff.rows, diff.total))
    if base.is_cut or (now.is_cut and not worse):
        raise TraceError("a file was cut, so that nobody can tell whether the second profile is worse")
    return worse


_MACHINE = "the machine of the profiles"


def _diff_text(base: OpTrace, now: OpTrace, window: Any, top: int, style: str) -> Iterator[str]:
    from . import reports

    yield f"{base.source}  [{base.environment}] -> {now.source}  [{now.environment}]"
    if base.environment != now.environment:
        yield "the environments differ: so may ops and times, for no fault of the program"
    yield from (f"  {finding}" for finding in window.regressions)
    yield from (f"  {improvement}" for improvement in window.diff.improvements())
    yield ""
    if max(len(base.steps), len(now.steps)) > 1:
        yield "calls are of the step with most, times of the fastest step, each row's own (--steps chooses some)"
    yield from "\n".join(reports.table(window, top, top == 0, style, "-t 0 shows them")).splitlines()
    yield f"verdict: {window.diff.verdict.value}"


def _diff_document(base: OpTrace, now: OpTrace, diff: Any) -> dict[str, Any]:
    def plain(row: Any) -> dict[str, Any]:
        return {
            "op": row.op,
            "base_calls": row.base_calls and row.base_calls.most,
            "now_calls": row.now_calls and row.now_calls.most,
            "base_ns": row.base_ns,
            "now_ns": row.now_ns,
            "verdict": row.verdict.value,
        }

    return {
        "base": {"source": base.source, "environment": base.environment.full},
        "now": {"source": now.source, "environment": now.environment.full},
        "verdict": diff.verdict.value,
        "times_not_judged": diff.times or None,
        "total": plain(diff.total),
        "rows": [plain(row) for row in diff.rows],
    }


def _check(arguments: argparse.Namespace) -> bool:
    # Imported here, with NumPy behind it.
    from .budgets import Budget, parse_pair

    budget = reduce(lambda farther, nearer: nearer.over(farther), map(parse_pair, arguments.budget), Budget())
    broken, cut = False, list[traces.Found]()
    for found, trace in _read(arguments, arguments.file, arguments.rank, arguments.steps, quiet=True):
        remarks = _remarks(trace)
        try:
            text, exceeded = _judged(found, trace, budget, arguments)
        except OpprofError:
            for remark in remarks:
                _say(found, remark)
            raise
        print("\n".join(map(listing.clean, [*text.splitlines(), *(f"note: {remark}" for remark in remarks)])))
        broken = broken or exceeded
        cut += [found] if trace.is_cut else []
    if cut and not broken:
        raise TraceError(f"{cut[0]}: was cut, so that nobody can tell whether it is within its budget")
    return broken


def _judged(found: traces.Found, trace: OpTrace, budget: Budget, arguments: argparse.Namespace) -> tuple[str, bool]:
    """Return the verdict in words, and whether the budget is exceeded. Raises UsageError for what cannot be judged."""
    from . import reports

    named = [*budget.ops, *(budget.only or ()), *(budget.top or ())]
    if named and trace.inferred_types and not arguments.allow_inferred:
        raise UsageError(
            f"{found}: its op types were guessed from names, so a limit on an op may miss some. Record it"
            " so that it has them (on Ascend: Level1), or say --allow-inferred"
        )
    profile = trace.profile()
    _check_told(found, trace, named)
    if "host_time" in budget.window and trace.step_ns is None:
        raise UsageError(_no_wall_time(found, trace))
    findings = budget.check(profile)
    if not findings:
        return _kept(found, trace, profile, arguments), False
    window = reports.WindowReport(reports.BODY, profile, findings)
    text = reports.failure(str(found), [window], 5, False, "", "opprof show -t 0 lists them")
    if profile.steps > 1:
        text += f"\nlimits hold{_each(profile.steps)}; --steps chooses some"
    return text, True


def _no_wall_time(found: traces.Found, trace: OpTrace) -> str:
    ops = query.total(trace, "host")
    known = "" if ops is None else f": its ops have {format_ns(ops)} of host time, without what is between them"
    return (
        f"{found}: the limit on host_time cannot be checked. It is the wall time of each step, which {trace.source}"
        f" does not have{known}. Limit device_time, or record steps"
    )


def _check_told(found: traces.Found, trace: OpTrace, named: Sequence[str]) -> None:
    """Raise UsageError for a limit on an op that the source cannot tell from others: it would pass unseen."""
    for name in named:
        if _is_untold(trace, name):
            raise UsageError(
                f"{found}: the limit on {name} cannot be checked: {trace.source} does not tell {name} from other ops"
            )


def _is_untold(trace: OpTrace, name: str) -> bool:
    """Tell whether ops may be called something else here though they are *name*."""
    if name in trace.untold or "*" not in trace.untold:
        return name in trace.untold
    moves = name.startswith("Mem") or name == "Synchronize"
    return names.meaning(name).op in names.canonical_ops() and not moves and not query.is_present(trace, name)


def _kept(found: traces.Found, trace: OpTrace, profile: Any, arguments: argparse.Namespace) -> str:
    limits = ", ".join(arguments.budget)
    ops = f"{profile.total.most_calls} calls of {len(profile.ops)} ops{_each(profile.steps)}"
    verdict = "what is left of it does not exceed" if trace.is_cut else "within"
    return f"{found}: {verdict} its budget ({limits}); {ops}"


def _each(steps: int) -> str:
    return f" in each of {steps} steps, times in the fastest" if steps > 1 else ""


def _convert(arguments: argparse.Namespace) -> bool:
    from .baselines import write_atomically
    from .traces import opprof

    output = arguments.output.resolve()
    if output.exists() and not output.is_file():
        raise UsageError(f"{arguments.output}: is no file; name one to write")
    if not output.parent.is_dir():
        raise UsageError(f"{arguments.output}: there is no folder {output.parent}")
    trace = _read_one(arguments, arguments.file, arguments.rank, arguments.steps, "convert")
    if output.exists() and output.samefile(arguments.file):
        raise UsageError(f"{arguments.output}: is the profile itself; write to another file")
    text = opprof.chrome(trace) if arguments.output.name.endswith(".trace.json") else opprof.dump(trace)
    try:
        write_atomically(output, text)
    except OSError as error:
        raise UsageError(f"{arguments.output}: cannot be written: {error.strerror or error}") from None
    print(f"wrote {arguments.output}: {len(trace.records)} records")
    return False


def _formats(arguments: argparse.Namespace) -> bool:
    width = max(map(len, traces.FORMATS))
    for name in traces.FORMATS:
        print(f"{name:{width}}  {traces.module(name).TITLE}")
    return False


def _read(
    arguments: argparse.Namespace, path: Path, rank: str | None, steps: str | None, quiet: bool = False
) -> list[tuple[traces.Found, OpTrace]]:
    """Read the profile, or with ``--rank all`` every one, in *path*; say its remarks on stderr unless *quiet*."""
    gc.disable()  # 10**6 objects that refer to no other: a third of the time is looking for cycles among them
    try:
        with _Progress(path) as progress:
            found = _chosen(traces.find(Place(path, progress), arguments.source), path, rank)
            read = [traces.read(each, arguments.partial) for each in found]
    except MemoryError:
        raise TraceError(f"{path}: is larger than the memory there is") from None
    finally:
        gc.enable()
    for each, trace in zip(found, read):
        if not trace.records:
            raise TraceError(f"{each}: holds no op: nothing ran while it was recorded, or the recording was lost")
        for remark in () if quiet else _remarks(trace):
            _say(each, remark)
    return [(each, trace if steps is None else query.steps(trace, steps)) for each, trace in zip(found, read)]


def _remarks(trace: OpTrace) -> list[str]:
    return [*trace.remarks, *query.untimed(trace)]


def _say(found: traces.Found, remark: str) -> None:
    print(f"opprof: {listing.clean(f'{found}: {remark}')}", file=sys.stderr)


def _chosen(found: Sequence[traces.Found], path: Path, rank: str | None) -> list[traces.Found]:
    if rank == "all":
        return list(found)
    if rank is not None and not rank.isdecimal():
        raise UsageError(f"--rank {rank!r}: write a number, or all")
    chosen = [each for each in found if rank is None or each.rank == int(rank)]
    if len(chosen) == 1:
        return chosen
    if not chosen:
        raise UsageError(f"{path}: has no rank {rank}; it holds{_names(found)}")
    told_apart = len({each.rank for each in chosen} - {None}) == len(chosen)
    how = "choose one by --rank N, or --rank all" if told_apart else "name one, or say --rank all for each of them"
    raise UsageError(f"{path}: holds {len(chosen)} profiles; {how}:{_names(chosen)}")


def _names(found: Sequence[traces.Found], most: int = 20) -> str:
    lines = [f"\n  {listing.clean(str(each))}" for each in found[:most]]
    return "".join(lines) + (f"\n  and {len(found) - most} more" if len(found) > most else "")


def _read_one(arguments: argparse.Namespace, path: Path, rank: str | None, steps: str | None, command: str) -> OpTrace:
    read = _read(arguments, path, rank, steps)
    if len(read) > 1:
        raise UsageError(f"opprof {command} takes one rank at a time: --rank N")
    return read[0][1]


class _Progress:
    """Says on a terminal how much of a large file was read."""

    def __init__(self, path: Path) -> None:
        self._size = path.stat().st_size if path.is_file() else 0
        self._read = 0
        self._said = -1
        self._shown = self._size > _SHOWS_PROGRESS and sys.stderr.isatty()

    def __enter__(self) -> Callable[[int], None]:
        return self._more

    def __exit__(self, *_: object) -> None:
        if self._said >= 0:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _more(self, size: int) -> None:
        self._read += size
        percent = min(100 * self._read // self._size, 100) if self._shown else self._said
        if percent != self._said:
            self._said = percent
            print(f"\ropprof: reading, {percent}%", end="", file=sys.stderr, flush=True)
