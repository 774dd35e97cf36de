"""The commands of ``opprof`` that work on saved profiles: show, diff, check, convert, formats."""

from __future__ import annotations

import argparse
import gc
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from . import listing, names, query, traces
from .errors import TraceError, UsageError
from .query import Question, Side
from .trace import KernelRecord, OpTrace
from .traces.place import Place
from .units import format_ns, parse, parse_share

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
    answers = [_answer(trace, arguments) for trace in _read(arguments.file, arguments, arguments.rank, arguments.steps)]
    if arguments.format == "json" and not arguments.only_ops:
        print(listing.document(answers[0] if arguments.rank != "all" else {"ranks": answers}))
    else:
        print("\n\n".join(map(str, answers)))
    return False


def _answer(trace: OpTrace, arguments: argparse.Namespace) -> Any:
    """Return what is to be printed of one profile: text, or the JSON object."""
    sides: tuple[Side, ...] = ("device", "host") if arguments.side == "both" else (arguments.side,)
    questions = [_question(arguments, side) for side in sides]
    for question in questions:
        _check_known(trace, question)
    if arguments.only_ops:
        lines = [line for question in questions for line in query.answer(trace, question)]
        return "\n".join(map(_named, lines))
    if arguments.kernels:
        return _kernels(trace, arguments)
    if arguments.format == "json":
        return _document(trace, questions, arguments.copy_time)
    if arguments.format == "csv":
        return "\n".join(listing.rows_csv(query.answer(trace, question)) for question in questions)
    return "\n".join(_text(trace, questions, arguments))


def _named(line: query.Line) -> str:
    return " ".join(listing.clean(text or "-") for text in (line.name, line.type, line.id))


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
        raise UsageError(f"{trace.source}: has no {question.side} times; try --side")
    if question.time == "kern" and not any(
        query.launch_ns(record, question.side) is not None for record in trace.records
    ):
        raise UsageError(f"{trace.source}: does not tell when an op's first kernel began (--time kern)")
    if question.input_dtype and not any(record.input_dtypes for record in trace.records):
        raise UsageError(f"{trace.source}: has no dtypes, so --input-dtype cannot be answered")


def _document(trace: OpTrace, questions: Sequence[Question], copies: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "source": trace.source,
        "environment": trace.environment.full,
        "steps": list(trace.steps),
        "device_time_ns": query.total(trace, "device"),
        "host_time_ns": query.total(trace, "host"),
        "communication_ns": query.communication(trace),
        "remarks": list(trace.remarks),
    }
    for question in questions:
        rows = listing.rows_json(query.answer(trace, question))
        document["rows" if question is questions[0] else "host_rows"] = rows
    if copies:
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
    if arguments.copy_time:
        yield _copy_line(query.copy_time(trace, questions[0]))
    for question in questions:
        lines = query.answer(trace, question)
        yield ""
        yield listing.rows_table(lines, arguments.format) if lines else f"no op of the {question.side} matches"


def _copy_line(time: query.CopyTime) -> str:
    if not time.calls or time.total_ns is None:
        return "copies: none"
    launch = "" if time.launch_ns is None else f", of it {format_ns(time.launch_ns)} waiting and launching"
    return f"copies: {time.calls}, {format_ns(time.total_ns)}, {format_ns(time.total_ns / time.calls)} each{launch}"


def _kernels(trace: OpTrace, arguments: argparse.Namespace) -> Any:
    if trace.kernels is None:
        raise UsageError(f"{trace.source}: has no kernels beside its ops; opprof show without --kernels lists those")
    joined: dict[tuple[str, str, str], KernelRecord] = {}
    for kernel in trace.kernels:
        key = kernel.name, kernel.launched_by, kernel.place
        sum_ = joined.get(key, kernel._replace(calls=0, device_ns=0))
        joined[key] = kernel._replace(calls=sum_.calls + kernel.calls, device_ns=sum_.device_ns + kernel.device_ns)
    kernels = sorted(joined.values(), key=lambda kernel: -kernel.device_ns)
    kernels = kernels[: arguments.top] if arguments.top else kernels
    if arguments.format == "json":
        return {"source": trace.source, "kernels": [listing.kernel_json(kernel) for kernel in kernels]}
    return listing.kernels_text(kernels, arguments.format)


def _diff(arguments: argparse.Namespace) -> bool:
    # Imported here, with NumPy behind them: to show a profile needs neither.
    from . import reports
    from .baselines import Entry
    from .compare import compare
    from .judge import Rule

    base_rank, base_steps = arguments.base_rank or arguments.rank, arguments.base_steps or arguments.steps
    (base,) = _one(_read(arguments.base, arguments, base_rank, base_steps), "diff")
    (now,) = _one(_read(arguments.now, arguments, arguments.rank, arguments.steps), "diff")
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
    return any(row.verdict.is_regression for row in (*diff.rows, diff.total))


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
        yield "calls are those of a step, the one with most; times those of the fastest step (--steps chooses some)"
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
    # Imported here, with NumPy behind them.
    from . import reports
    from .budgets import Budget, parse_pair

    budget = reduce(lambda farther, nearer: nearer.over(farther), map(parse_pair, arguments.budget), Budget())
    broken = False
    for trace in _read(arguments.file, arguments, arguments.rank, arguments.steps):
        named = [*budget.ops, *(budget.only or ()), *(budget.top or ())]
        if named and trace.inferred_types and not arguments.allow_inferred:
            raise UsageError(
                f"{arguments.file}: its op types were guessed from names, so a limit on an op may miss some. Record it"
                " so that it has them (on Ascend: Level1), or say --allow-inferred"
            )
        profile = trace.profile()
        _check_told(arguments.file, trace, named, profile.op_names)
        findings = budget.check(profile)
        window = reports.WindowReport(reports.BODY, profile, findings)
        hint = "opprof show -t 0 lists them"
        broken_text = reports.failure(str(arguments.file), [window], 5, False, "", hint) if findings else ""
        text = broken_text or _kept(profile, arguments)
        if findings and profile.steps > 1:
            text += f"\nlimits hold{_each(profile.steps)}; --steps chooses some"
        print("\n".join(map(listing.clean, text.splitlines())))
        broken = broken or bool(findings)
    return broken


def _check_told(path: Path, trace: OpTrace, named: Sequence[str], present: Sequence[str]) -> None:
    """Raise UsageError for a limit on an op that the source cannot tell from others: it would pass unseen."""
    for name in named:
        canonical = names.meaning(name).op in names.canonical_ops()
        moves = name.startswith("Mem") or name == "Synchronize"
        if name in trace.untold or ("*" in trace.untold and canonical and not moves and name not in present):
            raise UsageError(
                f"{path}: the limit on {name} cannot be checked: {trace.source} does not tell {name} from other ops"
            )


def _kept(profile: Any, arguments: argparse.Namespace) -> str:
    limits = ", ".join(arguments.budget)
    ops = f"{profile.total.most_calls} calls of {len(profile.ops)} ops{_each(profile.steps)}"
    return f"{arguments.file}: within its budget ({limits}); {ops}"


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
    (trace,) = _one(_read(arguments.file, arguments, arguments.rank, arguments.steps), "convert")
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


def _read(path: Path, arguments: argparse.Namespace, rank: str | None, steps: str | None) -> list[OpTrace]:
    """Read the profile, or with ``--rank all`` every one, in *path*; say its remarks on stderr."""
    gc.disable()  # 10**6 objects that refer to no other: a third of the time is looking for cycles among them
    try:
        with _Progress(path) as progress:
            found = _chosen(traces.find(Place(path, progress), arguments.source), path, rank)
            read = [traces.read(each, arguments.partial) for each in found]
    except MemoryError:
        raise TraceError(f"{path}: is larger than the memory there is") from None
    finally:
        gc.freeze()  # nor are they looked through from here on
        gc.enable()
    for each, trace in zip(found, read):
        if not trace.records:
            raise TraceError(f"{each}: holds no op: nothing ran while it was recorded, or the recording was lost")
        for remark in (*trace.remarks, *query.untimed(trace)):
            print(f"opprof: {listing.clean(f'{each}: {remark}')}", file=sys.stderr)
    return [query.steps(trace, steps) if steps else trace for trace in read]


def _chosen(found: Sequence[traces.Found], path: Path, rank: str | None) -> list[traces.Found]:
    if rank == "all":
        return list(found)
    if rank is not None and not rank.isdecimal():
        raise UsageError(f"--rank {rank!r}: write a number, or all")
    chosen = [each for each in found if rank is None or each.rank == int(rank)]
    if len(chosen) == 1:
        return chosen
    listed = "".join(f"\n  {listing.clean(str(each))}" for each in found[:20])
    if not chosen:
        raise UsageError(f"{path}: has no rank {rank}; it holds{listed}")
    raise UsageError(f"{path}: holds {len(chosen)} profiles; name one, or choose by --rank N or --rank all:{listed}")


def _one(read: list[OpTrace], command: str) -> list[OpTrace]:
    if len(read) > 1:
        raise UsageError(f"opprof {command} takes one rank at a time: --rank N")
    return read


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
