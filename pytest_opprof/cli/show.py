"""``opprof show``: what a saved profile holds, op by op."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import errors
from ..errors import UsageError
from ..escaping import writer
from ..frameworks.files import formats
from ..ops import names as ops_names
from ..ops.dtypes import is_dtype
from ..profile.saved import OUTSIDE, SavedKernel, SavedProfile
from ..report import listing
from ..units import format_bytes, format_ns, format_share, parse_duration, plural
from ..verdict import query
from ..verdict.question import AggregateBy, Line, Question, Side, in_steps, ordering
from . import reading, show_ranks, show_times
from .remote import location

_OF_OPS: Mapping[str, object] = {
    **dict.fromkeys(("input_dtype", "min_time", "max_time", "aggregate_by", "aggregate", "copy_time", "only_ops")),
    **dict.fromkeys(("name", "type")),
    "order_by": "time",
    "side": "device",
    "time": "end",
    "top": None,
}
"""Options of the list of ops, and what they are where they are not given (or nothing)."""
_TAKES = {"kernels": ("name", "type", "top"), "breakdown": (), "ranges": ("name", "top")}
"""Other lists, and which of these options they take."""
_CHOOSE = ("name", "type", "input_dtype", "min_time", "max_time", "only_ops")
"""Options that choose single ops: where one is given, these are shown, else a row for each canonical op."""
_TOP = 3
"""Rows of a table, unless more are asked for."""
_LISTED = 8
"""Ops that an answer without rows names."""


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    show = commands.add_parser(
        "show",
        help="show what a saved profile holds, op by op",
        description="Filters do not change the totals above the table. Times have units: 100us, 1.5ms.",
    )
    show.add_argument("file", type=location, help="a profile, or a folder with one")
    reading.add_source(show)
    reading.add_on(show)
    _add_question(show)
    show.set_defaults(run=_run)


def _add_question(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-t",
        "--top",
        type=int,
        metavar="K",
        help="rows to show (default: 3, of --format csv all; 0 is all)",
    )
    add("--name", metavar="REGEX", help="ops whose name this is found in, anywhere: '^conv' anchors it")
    type_help = "ops of this type, canonical or raw, or with --kernels the kernels of such ops; repeatable"
    add("--type", "--op", action="append", default=[], metavar="OP", help=type_help)
    add("--input-dtype", default="", metavar="DTYPE", help="ops with an input of this dtype")
    add("--order-by", default="time", metavar="[+]COLUMN", help="from the largest; + from the smallest (default: time)")
    add(
        "--aggregate-by",
        "--by",
        choices=("op", "type", "dtype", "place", "site", "dtype,site", "none"),
        help="one row for each canonical op, for each raw type, for each of an op's dtypes (--op Cast --by dtype), for"
        " each place where ops ran (a stream, a core, a node), for each line that asked for it (--by site), for dtypes"
        " and lines, or for each single op (default: op; none where ops are chosen)",
    )
    add("--aggregate", choices=("sum", "max", "min", "mean"), help="how (default: sum); alone: one row for all")
    add("--time", choices=("end", "kern"), default="end", help="until the op's end, or only until its first kernel")
    add("--min-time", metavar="TIME", help="ops of at least this time")
    add("--max-time", metavar="TIME", help="ops of at most this time")
    add("--side", choices=("device", "host", "both"), default="device", help="whose time (default: device)")
    lists = parser.add_mutually_exclusive_group()
    kernels_help = "the list of kernels instead: calls, total, average, launched by"
    lists.add_argument("--kernels", action="store_true", help=kernels_help)
    show_times.add(lists)
    add("--copy-time", action="store_true", help="also the time of the copies among the ops")
    add("--only-ops", action="store_true", help="only name, type and id, an op a line")
    add("--format", choices=listing.FORMATS, default="table")
    add("-o", "--output", type=Path, metavar="FILE.html", help="write all of it as a page to read in a browser instead")


def _run(arguments: argparse.Namespace) -> bool:
    """Print what a profile holds, or write it as a page."""
    if arguments.output:
        return _page(arguments)
    if arguments.top is None and "top" in _TAKES.get(_listed_instead(arguments), ("top",)):
        arguments.top = 0 if arguments.format == "csv" else _TOP
    by_site = arguments.aggregate_by in ("site", "dtype,site")
    profiles = reading.read(arguments, arguments.file, arguments.rank, arguments.steps, sites=by_site)
    for found, saved in profiles if by_site else ():
        reading.check_sites(found, saved)
    answers = [_answer(found, saved, arguments) for found, saved in profiles]
    if not _listed_instead(arguments) and not any(_matches(saved, arguments) for _, saved in profiles):
        raise UsageError("\n".join(dict.fromkeys(_no_op(saved, arguments) for _, saved in profiles)))
    if arguments.kernels and not any(_kernels(saved, arguments) for _, saved in profiles):
        raise UsageError(_no_kernel([saved for _, saved in profiles], arguments))
    together = None if _listed_instead(arguments) else show_ranks.answer(profiles, arguments)
    if arguments.format == "json":
        of_all = {**({"spread": together} if together else {}), "ranks": answers}
        print(listing.document(of_all if arguments.rank == "all" else answers[0]))
    elif text := (
        listing.one_csv(answers) if arguments.format == "csv" else "\n\n".join(filter(None, [together, *answers]))
    ):
        print(text)
    return False


def _matches(saved: SavedProfile, arguments: argparse.Namespace) -> bool:
    """Tell whether an op has the name and type that were asked for, on any side."""
    name, types = _pattern(arguments.name), tuple(arguments.type)
    if name is None and not types:
        return True
    return any(query.select(saved, Question(side=side, name=name, types=types)) for side in _sides(arguments))


def _no_op(saved: SavedProfile, arguments: argparse.Namespace) -> str:
    """Return what was asked for, that no op matches, and the nearest names."""
    asked = [f"--name {arguments.name!r}"] if arguments.name is not None else []
    asked += [f"--op {op}" for op in arguments.type]
    return ": ".join(filter(None, [", ".join(asked), _nothing(saved, _question(arguments, _sides(arguments)[0]))]))


def _sides(arguments: argparse.Namespace) -> tuple[Side, ...]:
    return ("device", "host") if arguments.side == "both" else (arguments.side,)


def _page(arguments: argparse.Namespace) -> bool:
    # Imported here, with Jinja2 behind them.
    from ..report.html import page, profile_page, times

    page.check_name(arguments.output, "-o")
    given = vars(arguments)
    others = {**_OF_OPS, **dict.fromkeys(_TAKES, False), "format": "table"}
    if other := [flag for flag, default in others.items() if given[flag] and given[flag] != default]:
        flags = ", ".join(f"--{flag.replace('_', '-')}" for flag in other)
        raise UsageError(
            f"-o {arguments.output}: the page has all ops, and sorts and filters itself: leave out {flags}"
        )
    has_lines = arguments.rank != "all"
    profiles = reading.read(arguments, arguments.file, arguments.rank, arguments.steps, sites=has_lines)
    (found, saved), *more = profiles
    if more:
        page.write(arguments.output, show_ranks.page(profiles, arguments), "-o")
        return False
    timeline = reading.timeline_if_told(arguments, found)
    if timeline and arguments.steps and not timeline.has_steps:
        reading.say(found, "the page has no timeline: the profile does not tell when its steps began")
        timeline = None
    when = times.of(saved, timeline, arguments.steps is not None) if timeline else None
    page.write(arguments.output, profile_page.html(saved, str(arguments.file), when), "-o")
    return False


def _answer(found: formats.Found, saved: SavedProfile, arguments: argparse.Namespace) -> Any:
    """Return what is to be printed of one profile: text, or the JSON object."""
    whose = {"profile": str(found.place), "rank": found.rank} if arguments.rank == "all" else {}
    if listed := _listed_instead(arguments):
        _refuse_others(arguments, listed)
        if arguments.kernels:
            return _kernels_answer(found, saved, arguments, whose)
        return show_times.answer(found, saved, arguments, _pattern(arguments.name), whose)
    sides = _sides(arguments)
    questions = [_question(arguments, side) for side in sides]
    for question in questions:
        _check_known(saved, question)
    for doubt in _doubts(saved, questions[0]):
        reading.say(found, doubt)
    if arguments.format in ("table", "markdown") and not arguments.only_ops:
        title = [writer(arguments.format)(str(found))] if whose else []
        return "\n".join([*title, *_text(saved, questions, arguments)])
    columns = listing.NAMES if arguments.only_ops else listing.COLUMNS
    answers = [query.answer(saved, question) for question in questions]
    for question, lines in zip(questions, answers):
        if not lines:
            reading.say(found, _nothing(saved, question))
    if arguments.format == "json":
        return {
            **whose,
            **_document(saved, questions, [listing.rows_json(lines, columns) for lines in answers], arguments),
        }
    if arguments.copy_time:
        reading.say(found, _copy_line(query.copy_time(saved, questions[0])))
    if arguments.format == "csv":
        marked = [{**whose, **({"side": side} if len(sides) > 1 else {})} for side in sides]
        return listing.one_csv([listing.rows_csv(lines, mark, columns) for lines, mark in zip(answers, marked)])
    return listing.names_text([line for lines in answers for line in lines], arguments.format)


def _question(arguments: argparse.Namespace, side: Side) -> Question:
    order_by, ascending = ordering(arguments.order_by)
    return Question(
        side=side,
        time=arguments.time,
        name=_pattern(arguments.name),
        types=tuple(arguments.type),
        input_dtype=arguments.input_dtype,
        least_ns=_duration(arguments.min_time, "--min-time"),
        most_ns=_duration(arguments.max_time, "--max-time"),
        aggregate_by=_aggregated_by(arguments),
        aggregate=arguments.aggregate or "sum",
        order_by=order_by,
        ascending=ascending,
        top=arguments.top,
    )


def _aggregated_by(arguments: argparse.Namespace) -> AggregateBy:
    if arguments.aggregate_by == "none":
        if arguments.aggregate:
            raise UsageError(
                f"--aggregate {arguments.aggregate}: single ops are not aggregated; say --by op, or no --by"
            )
        return ""
    if arguments.aggregate_by:
        return arguments.aggregate_by  # type: ignore[no-any-return]
    if arguments.aggregate:
        return "all"
    return "" if any(getattr(arguments, option) for option in _CHOOSE) else "op"


def _duration(text: str | None, flag: str) -> int | None:
    return None if text is None else parse_duration(text, flag)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"--name {text!r} is no regular expression: {error}") from None


def _check_known(saved: SavedProfile, question: Question) -> None:
    """Raise UsageError for a question that the profile cannot answer: an empty table would say something else."""
    if query.is_timed(saved) and not query.has_times(saved, question.side):
        other = "host" if question.side == "device" else "device"
        raise UsageError(f"{saved.source}: has no {question.side} times; ask for those of the {other}: --side {other}")
    if question.time == "kern" and not any(
        query.launch_ns(record, question.side) is not None for record in saved.records
    ):
        raise UsageError(f"{saved.source}: does not tell when an op's first kernel began (--time kern)")
    if question.input_dtype and not query.input_dtypes(saved):
        raise UsageError(f"{saved.source}: has no dtypes, so --input-dtype cannot be answered")


def _doubts(saved: SavedProfile, question: Question) -> Iterator[str]:
    """Yield what an answer may not be taken for: of a misspelt name, or of a type that the source cannot tell."""
    for name in question.types:
        if query.is_untold(saved, name):
            yield f"--type {name}: {saved.source} does not tell {name} from other ops, so there may be more"
        elif not query.is_present(saved, name) and not ops_names.is_known(name):
            known = {
                *ops_names.canonical_ops(),
                *_ops(saved, question.side),
                *(record.type for record in saved.records),
            }
            yield f"--type: {errors.unknown(name, known)}"
    if question.input_dtype and not is_dtype(question.input_dtype):
        yield f"--input-dtype: {errors.unknown(question.input_dtype, query.input_dtypes(saved), 'dtype')}"


def _document(
    saved: SavedProfile, questions: Sequence[Question], rows: Sequence[Any], arguments: argparse.Namespace
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "source": saved.source,
        "environment": saved.environment.full,
        "steps": list(saved.steps),
        "device_time_ns": query.total(saved, "device"),
        "host_time_ns": query.total(saved, "host"),
        "communication_ns": query.communication(saved),
        "step_ns": list(saved.step_ns) if saved.step_ns else None,
        "peak_memory": saved.peak_memory,
        "host_peak_memory": saved.host_peak_memory,
        "remarks": reading.remarks(saved),
        **dict(zip(("rows", "host_rows"), rows)),
    }
    if arguments.copy_time:
        time = query.copy_time(saved, questions[0])
        document["copy_time"] = {"calls": time.calls, "total_ns": time.total_ns, "launch_ns": time.launch_ns}
    return document


def _text(saved: SavedProfile, questions: Sequence[Question], arguments: argparse.Namespace) -> Iterator[str]:
    write = writer(arguments.format)
    yield write(f"{saved.source}  [{saved.environment}]")
    for side in ("device", "host"):
        ns = query.total(saved, side)
        yield f"total {side} time: {'-' if ns is None else format_ns(ns, 4)}"
    if len(saved.steps) > 1 and saved.steps[-1] == OUTSIDE and (ns := query.total(in_steps(saved, OUTSIDE), "device")):
        yield f"device time outside of every step: {format_ns(ns, 4)}"
    if ns := query.communication(saved):
        yield f"communication (not included above): {format_ns(ns, 4)}"
    if saved.step_ns and len(saved.step_ns) == 1:
        yield f"wall time of the step: {format_ns(saved.step_ns[0], 4)}"
    elif saved.step_ns:
        least, most = (format_ns(of(saved.step_ns), 4) for of in (min, max))
        yield f"wall time of each of {len(saved.step_ns)} steps: {least} to {most}"
    if saved.peak_memory is not None:
        yield f"peak memory: {format_bytes(saved.peak_memory, 4)}"
    if saved.host_peak_memory is not None:
        yield f"peak memory of the host: {format_bytes(saved.host_peak_memory, 4)}"
    if arguments.copy_time:
        yield _copy_line(query.copy_time(saved, questions[0]))
    for question in questions:
        lines = query.answer(saved, question)
        yield from map(write, map(_selected, query.selection(saved, question)))
        if any(line.calls == 0 for line in lines):
            yield "0 calls: a part of calls that are counted in another row"
        yield ""
        yield listing.rows_table(lines, arguments.format) if lines else write(_nothing(saved, question))


def _selected(line: Line) -> str:
    what = "selected" if line.type == "all" else f"selected {line.type}"
    share = "" if line.share is None else f" ({format_share(line.share)})"
    time = "" if line.time_ns is None else f", {format_ns(line.time_ns, 4)}{share}"
    return f"{what}: {plural(line.calls, 'call')}{time}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f". There are {', '.join(names[:_LISTED])}{more}" if names else ""


def _nothing(saved: SavedProfile, question: Question) -> str:
    """Return that nothing matches, and what there is."""
    dtypes = f" Input dtypes: {', '.join(query.input_dtypes(saved))}." if question.input_dtype else ""
    return f"no op of the {question.side} matches{_listed(_ops(saved, question.side))}.{dtypes}"


def _ops(saved: SavedProfile, side: Side) -> list[str]:
    """Return the ops, the most expensive first."""
    return [line.op or "" for line in query.answer(saved, Question(side=side, aggregate_by="op"))]


def _copy_line(time: query.CopyTime) -> str:
    if not time.calls or time.total_ns is None:
        return "copies: none"
    launch = "" if time.launch_ns is None else f", of it {format_ns(time.launch_ns)} waiting and launching"
    return f"copies: {time.calls}, {format_ns(time.total_ns)}, {format_ns(time.total_ns / time.calls)} each{launch}"


def _listed_instead(arguments: argparse.Namespace) -> str:
    return next((flag for flag in _TAKES if getattr(arguments, flag)), "")


def _refuse_others(arguments: argparse.Namespace, listed: str) -> None:
    """Raise UsageError for options of the list of ops, which would change nothing."""
    given, takes = vars(arguments), _TAKES[listed]
    not_taken = {flag: default for flag, default in _OF_OPS.items() if flag not in takes}
    if other := [flag for flag, default in not_taken.items() if given[flag] and given[flag] != default]:
        refused = ", ".join(f"--{flag.replace('_', '-')}" for flag in other)
        taken = "".join(f"--{flag}, " for flag in takes) + "--steps and --format"
        raise UsageError(f"--{listed} is a list of its own: it takes {taken}, not {refused}")


def _kernels_answer(
    found: formats.Found, saved: SavedProfile, arguments: argparse.Namespace, whose: Mapping[str, object]
) -> Any:
    if saved.kernels is None:
        raise UsageError(f"{saved.source}: has no kernels beside its ops; opprof show without --kernels lists those")
    kernels = _kernels(saved, arguments)
    nothing = "" if kernels else _no_kernel([saved], arguments)
    kernels = kernels[: arguments.top] if arguments.top else kernels
    if arguments.format in ("table", "markdown"):
        write = writer(arguments.format)
        text = write(nothing) if nothing else listing.kernels_text(kernels, arguments.format)
        return "\n".join([*(write(str(found.place)) for _ in whose if _ == "profile"), text])
    if nothing and whose:
        reading.say(found, nothing)
    if arguments.format == "csv":
        return listing.kernels_csv(kernels, whose)
    return {**whose, "source": saved.source, "kernels": [listing.kernel_json(kernel) for kernel in kernels]}


def _kernels(saved: SavedProfile, arguments: argparse.Namespace) -> list[SavedKernel]:
    """Return the kernels that are asked for, steps joined, the most expensive first."""
    return query.kernels(saved, _pattern(arguments.name), arguments.type)


def _no_kernel(every: Sequence[SavedProfile], arguments: argparse.Namespace) -> str:
    kernels = [kernel for saved in every for kernel in query.kernels(saved)]
    if not kernels:
        return "no kernel ran in the steps asked for"
    given = [f"--name {arguments.name!r}"] if arguments.name is not None else []
    asked = ", ".join([*given, *(f"--op {op}" for op in arguments.type)])
    if not arguments.type:
        return f"{asked}: no kernel matches{_listed([*dict.fromkeys(listing.short(each.name) for each in kernels)])}"
    launching = dict.fromkeys(op for saved in every for op in query.launching(saved))
    return f"{asked}: no kernel matches. Ops that launched kernels{_listed([*launching]).removeprefix('. There')}"
