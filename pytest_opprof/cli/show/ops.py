"""``opprof show``: the list of ops, which is asked for by name, type, dtype and time."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ... import errors
from ...errors import UsageError
from ...frameworks.files import formats
from ...ops import names as ops_names
from ...ops.dtypes import is_dtype
from ...profile.saved import OUTSIDE, SavedProfile
from ...questions import query
from ...questions.question import AggregateBy, Line, Question, Side, in_steps, ordering
from ...report import listing
from ...report.tables import Style, json, style_of
from ...units import format_bytes, format_ns, format_share, parse_duration, plural
from ..inputs import reading

_CHOOSE = ("name", "type", "input_dtype", "min_time", "max_time", "only_ops")
"""Options that choose single ops: where one is given, these are shown, else a row for each canonical op."""
TAKES = (*_CHOOSE, "top", "order_by", "aggregate_by", "aggregate", "time", "side", "copy_time", "format")
"""Flags that this list takes."""
ALL = "-t 0 shows them"
"""How to see the rows below the top."""
_LISTED = 8
"""Ops that an answer without rows names."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose, order and aggregate ops."""
    add = parser.add_argument
    add(
        "-t",
        "--top",
        type=int,
        metavar="K",
        help="show K rows (default: 10; all with --format csv or json; 0: all)",
    )
    add("--name", metavar="REGEX", help="only ops whose name contains a match of REGEX ('^conv': begins with conv)")
    type_help = "only ops of this type, canonical or raw; with --kernels: only the kernels of such ops; repeatable"
    add("--type", "--op", action="append", default=[], metavar="OP", help=type_help)
    add("--input-dtype", default="", metavar="DTYPE", help="only ops with an input of this dtype")
    order_help = "sort by COLUMN, largest first; +COLUMN: smallest first (default: time)"
    add("--order-by", default="time", metavar="[+]COLUMN", help=order_help)
    add(
        "--aggregate-by",
        "--by",
        choices=("op", "type", "dtype", "place", "site", "dtype,site", "none"),
        help="one row per canonical op (op), raw type, dtypes of an op (--op Cast --by dtype), place where ops ran (a"
        " stream, a core, a node), source line (site), dtypes and line, or single op (none); default: op, or none if"
        " ops are chosen",
    )
    aggregate_help = "how to combine the ops of a row (default: sum); without --aggregate-by: one row for all ops"
    add("--aggregate", choices=("sum", "max", "min", "mean"), help=aggregate_help)
    time_help = "an op's time: to its end (default), or to its first kernel"
    add("--time", choices=("end", "kern"), default="end", help=time_help)
    add("--min-time", metavar="TIME", help="only ops that took TIME or longer")
    add("--max-time", metavar="TIME", help="only ops that took TIME or less")
    side_help = "show device time, host time or both (default: device)"
    add("--side", choices=("device", "host", "both"), default="device", help=side_help)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options that change the answer, beside its rows."""
    add = parser.add_argument
    add("--copy-time", action="store_true", help="also show the time of the copies")
    add("--only-ops", action="store_true", help="print only name, type and id, one op per line")


def answer(
    found: formats.Found, saved: SavedProfile, arguments: argparse.Namespace, whose: Mapping[str, object]
) -> Any:
    """Return the ops of one profile: text for people, an object for JSON, tables for CSV. Raises UsageError."""
    sides = _sides(arguments)
    questions = [_question(arguments, side) for side in sides]
    for question in questions:
        _check_known(saved, question)
    for doubt in _doubts(saved, questions[0]):
        reading.say(found, doubt)
    style = style_of(arguments.format)
    if arguments.format in ("table", "markdown") and not arguments.only_ops:
        title = [style.write(str(found))] if whose else []
        return "\n".join([*title, *_text(saved, questions, style, with_copies=arguments.copy_time)])
    answers, missing = zip(*(query.answered(saved, question) for question in questions))
    for question, lines in zip(questions, answers):
        if not lines:
            reading.say(found, _nothing(saved, question))
    tables = [listing.names(lines) if arguments.only_ops else listing.rows(lines) for lines in answers]
    copies = query.copy_time(saved, questions[0]) if arguments.copy_time else None
    if arguments.format == "json":
        rows = dict(zip(("rows", "host_rows"), map(json, tables)))
        copied = copies and {"calls": copies.calls, "total_ns": copies.total_ns, "launch_ns": copies.launch_ns}
        return {**whose, **_totals(saved), **rows, **({"copy_time": copied} if copied else {})}
    if copies:
        reading.say(found, _copy_line(copies))
    if arguments.format == "csv":
        marks = [{**whose, **({"side": side} if len(sides) > 1 else {})} for side in sides]
        return [table.of(mark) for table, mark in zip(tables, marks)]
    # On standard error: programs read an op a line.
    for line in filter(None, style.left_out(sum(missing), "op", ALL)):
        reading.say(found, line)
    return listing.names_text([line for lines in answers for line in lines], style)


def check_matches(profiles: Sequence[SavedProfile], arguments: argparse.Namespace) -> None:
    """Raise UsageError where no op of any profile, on any side, has the name and type that were asked for."""
    name, types, sides = pattern(arguments.name), tuple(arguments.type), _sides(arguments)
    if name is None and not types:
        return
    questions = [Question(side=side, name=name, types=types) for side in sides]
    if any(query.select(saved, question) for saved in profiles for question in questions):
        return
    asked = [f"--name {arguments.name!r}"] if arguments.name is not None else []
    asked += [f"--op {op}" for op in arguments.type]
    question = _question(arguments, sides[0])
    said = [": ".join(filter(None, [", ".join(asked), _nothing(saved, question)])) for saved in profiles]
    raise UsageError("\n".join(dict.fromkeys(said)))


def _sides(arguments: argparse.Namespace) -> tuple[Side, ...]:
    return ("device", "host") if arguments.side == "both" else (arguments.side,)


def _question(arguments: argparse.Namespace, side: Side) -> Question:
    order_by, ascending = ordering(arguments.order_by)
    return Question(
        side=side,
        time=arguments.time,
        name=pattern(arguments.name),
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


def pattern(text: str | None) -> re.Pattern[str] | None:
    """Read ``--name``. Raises UsageError."""
    try:
        return None if text is None else re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"--name {text!r} is no regular expression: {error}") from None


def _check_known(saved: SavedProfile, question: Question) -> None:
    """Raise UsageError for a question that the profile cannot answer: an empty table would say something else."""
    if query.is_timed(saved) and not query.has_times(saved, question.side):
        other = "host" if question.side == "device" else "device"
        raise UsageError(f"{saved.source}: has no {question.side} times; ask for times of the {other}: --side {other}")
    if question.time == "kern" and not any(
        query.launch_ns(record, question.side) is not None for record in saved.records
    ):
        raise UsageError(f"{saved.source}: does not tell when an op's first kernel began (--time kern)")
    if question.input_dtype and not query.input_dtypes(saved):
        raise UsageError(f"{saved.source}: has no dtypes, so --input-dtype cannot be answered")


def _doubts(saved: SavedProfile, question: Question) -> Iterator[str]:
    """Yield doubts about an answer: a misspelt name, a type that the source does not tell from others."""
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


def _totals(saved: SavedProfile) -> dict[str, Any]:
    return {
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
    }


def _text(saved: SavedProfile, questions: Sequence[Question], style: Style, *, with_copies: bool) -> Iterator[str]:
    yield style.write(f"{saved.source}  [{saved.environment}]")
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
    if with_copies:
        yield _copy_line(query.copy_time(saved, questions[0]))
    for question in questions:
        lines, missing = query.answered(saved, question)
        yield from map(style.write, map(_selected, query.selection(saved, question)))
        if any(line.calls == 0 for line in lines):
            yield "A row with 0 calls has a part of calls that another row counts."
        yield ""
        yield (
            style.text(listing.rows(lines, question.aggregate_by)) if lines else style.write(_nothing(saved, question))
        )
        yield from style.left_out(missing, "op" if question.aggregate_by in ("", "op") else "row", ALL)


def _selected(line: Line) -> str:
    what = "selected" if line.type == "all" else f"selected {line.type}"
    share = "" if line.share is None else f" ({format_share(line.share)})"
    time = "" if line.time_ns is None else f", {format_ns(line.time_ns, 4)}{share}"
    return f"{what}: {plural(line.calls, 'call')}{time}"


def listed(names: Sequence[str], subject: str = "There") -> str:
    """Return a sentence about *subject* with the first of *names*; empty where there is none."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f". {subject} are {', '.join(names[:_LISTED])}{more}" if names else ""


def _nothing(saved: SavedProfile, question: Question) -> str:
    """Return that no op matches, and the ops that there are."""
    dtypes = f" Input dtypes: {', '.join(query.input_dtypes(saved))}." if question.input_dtype else ""
    return f"no op of the {question.side} matches{listed(_ops(saved, question.side))}.{dtypes}"


def _ops(saved: SavedProfile, side: Side) -> list[str]:
    """Return the ops, the most expensive first."""
    return [line.op or "" for line in query.answer(saved, Question(side=side, aggregate_by="op"))]


def _copy_line(time: query.CopyTime) -> str:
    if not time.calls or time.total_ns is None:
        return "copies: none"
    launch = "" if time.launch_ns is None else f", including {format_ns(time.launch_ns)} of waiting and launching"
    return f"copies: {time.calls}, {format_ns(time.total_ns)}, {format_ns(time.total_ns / time.calls)} each{launch}"
