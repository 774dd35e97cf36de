"""Write a timeline as a Chrome trace, which Perfetto, speedscope and chrome://tracing show."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain

from .intervals import union
from .spans import Kind, Lane, Memory, Span, Timeline

# Begins each trace that opprof writes, so that opprof recognises it.
BEGINNING = '{"displayTimeUnit": "ns", "otherData": {"source": '
# Rows of one lane for overlapping spans; later spans go onto the last one.
_MOST_ROWS = 32
# Events written at once.
_PIECE = 1 << 10


def of_steps(timeline: Timeline, steps: Container[str]) -> Iterator[Span]:
    """Yield the spans that ran, at least in part, in one of these steps."""
    chosen = union((span.start_ns, span.end_ns) for span in timeline if span.kind is Kind.STEP and span.name in steps)
    begins = [begin for begin, _ in chosen]
    for span in timeline:
        last = bisect_left(begins, span.end_ns) - 1
        if last >= 0 and span.start_ns < chosen[last][1]:
            yield span


def trace_of(spans: Iterable[Span], memory: Mapping[str, Memory], begin_ns: int, source: str) -> Iterator[str]:
    """Yield the text of the trace, in pieces; times begin with *begin_ns*. They are us, with ns as decimals."""
    processes: dict[str, int] = {}
    yield f'{BEGINNING}{json.dumps(source)}}}, "traceEvents": ['
    written: list[str] = []
    between = ""
    for event in chain(_events(spans, processes, begin_ns), _counters(memory, processes, begin_ns)):
        written.append(event)
        if len(written) == _PIECE:
            yield between + ",\n".join(written)
            written, between = [], ",\n"
    yield (between if written else "") + ",\n".join(written) + "]}\n"


def _events(spans: Iterable[Span], processes: dict[str, int], begin_ns: int) -> Iterator[str]:
    threads: dict[tuple[Lane, int], int] = {}
    names: dict[str, str] = {}
    on: Lane | None = None
    for span in spans:
        if span.lane != on:
            on, rows = span.lane, list[list[int]]()
        # A viewer drops a bar that neither follows the bar before nor lies inside it, so it gets a row of its own.
        row = _row(rows, span)
        if span.lane.process not in processes:
            yield _process(processes, span.lane.process)
        process = processes[span.lane.process]
        thread = threads.get((span.lane, row))
        if thread is None:
            thread = threads[span.lane, row] = len(threads) + 1
            yield _name("thread_name", process, thread, span.lane.thread + (f" ({row + 1})" if row else ""))
        called = f"step {span.name}" if span.kind is Kind.STEP else span.name
        name = names.get(called)
        if name is None:
            name = names[called] = json.dumps(called)
        start, duration = _us(span.start_ns - begin_ns), _us(span.duration_ns)
        yield (
            f'{{"ph":"X","pid":{process},"tid":{thread},"cat":"{span.kind.name.lower()}","name":{name},'
            f'"ts":{start},"dur":{duration}}}'
        )


def _counters(memory: Mapping[str, Memory], processes: dict[str, int], begin_ns: int) -> Iterator[str]:
    for device, (times, sizes) in memory.items():
        if device not in processes:
            yield _process(processes, device)
        for time, size in zip(times, sizes):
            yield (
                f'{{"ph":"C","pid":{processes[device]},"name":"memory in use","ts":{_us(time - begin_ns)},'
                f'"args":{{"bytes":{size}}}}}'
            )


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03}"


def _row(rows: list[list[int]], span: Span) -> int:
    """Return the first row in which the span follows the others or is inside one; *rows* have the ends of these."""
    for number, ends in enumerate(rows):
        while ends and span.start_ns >= ends[-1]:
            ends.pop()
        if not ends or span.end_ns <= ends[-1] or number == _MOST_ROWS - 1:
            ends.append(span.end_ns)
            return number
    rows.append([span.end_ns])
    return len(rows) - 1


def _process(processes: dict[str, int], name: str) -> str:
    processes[name] = len(processes) + 1
    return _name("process_name", processes[name], 0, name)


def _name(what: str, process: int, thread: int, name: str) -> str:
    return json.dumps({"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": name}})
