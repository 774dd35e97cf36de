"""Read the profiles that a command names: choose from a folder, show progress, print remarks."""

from __future__ import annotations

import argparse
import gc
import mmap
import multiprocessing
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import TraceError, UsageError
from ...frameworks.files import formats
from ...frameworks.files.place import Place
from ...frameworks.live.registry import learn_names
from ...machine.garbage import uncollected
from ...machine.identity import usable_cores
from ...machine.ranks import MANY
from ...profile.saved import SavedProfile
from ...questions import query
from ...questions.question import in_steps
from ...report.escaping import terminal
from ...units import plural
from .remote import Url, location

if TYPE_CHECKING:
    from ...timeline.spans import Timeline

MOST_MEMORY = 4 << 30
"""Bytes of memory for reading profiles: more is an attack. 10**7 ops of PyTorch take 0.5 GiB."""
_WITH_SITES = """ These do:
  a window of a run with --opprof-sites that opprof.save() wrote
  a PyTorch trace that was recorded with with_stack=True
  HLO text of JAX with metadata, as compile().as_text() writes it
  a graph that MindSpore saved (save_graphs), at the stage validate or execute
  an ONNX model of torch.onnx.export(..., dynamo=True), and with --model FILE an ONNX Runtime profile of it
  operator_details.csv of torch_npu, recorded with with_stack=True"""
NO_TIMES = "does not tell when anything ran"
_WITH_TIMES = """. These do:
  a trace of PyTorch's profiler, of JAX (trace.json.gz or xplane.pb), or of ONNX Runtime
  MegEngine's chrome_timeline.json
  trace_view.json, msprof_*.json, kernel_details.csv and op_summary*.csv of Ascend
  cpu_op_execute_timestamp_*.txt of MindSpore on a CPU
  an Nsight Systems file exported with nsys export --type sqlite"""
PARALLEL = 50_000_000
"""Bytes: to read less takes about as long as to start processes for it."""
_INFLATES = 10
"""How many bytes of a trace one byte of gzip holds, about."""
_SHOWS_PROGRESS = 20_000_000
"""Bytes: a smaller file is read in less than a tenth of a second."""

_Name = TypeVar("_Name")
How = tuple[bool, bool, "Path | None"]
"""Whether in part, whether with sites, and the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which profiles of a path are wanted, and how to read them."""

    source: str | None = None
    """Its format, whatever it looks like."""
    rank: str | None = None
    steps: str | None = None
    stage: str | None = None
    partial: bool = False
    model: Path | None = None
    on: str | None = None
    """The cluster whose workers read them."""
    sites: bool = False
    """Whether to read which lines asked for ops, too."""
    quiet: bool = False
    """Whether the command itself says the remarks."""

    @classmethod
    def of(cls, arguments: argparse.Namespace, **given: Any) -> Asked:
        """Return the options of the command line, *given* ones instead of them."""
        named = {each.name: getattr(arguments, each.name) for each in fields(cls) if hasattr(arguments, each.name)}
        return cls(**{**named, **given})

    @property
    def how(self) -> How:
        """How to read a file."""
        return self.partial, self.sites, self.model


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which profile to read, and how."""
    parser.add_argument("--source", metavar="FORMAT", help="read the file as this format, without detection")
    parser.add_argument("--rank", metavar="N", help="rank to read from a folder of ranks, or 'all'")
    parser.add_argument("--steps", metavar="STEPS", help="only these steps: 2-4 or 2,3,4")
    parser.add_argument("--partial", action="store_true", help="read the rest of a file that was cut or lacks times")
    parser.add_argument(
        "--model", type=location, metavar="FILE", help="the ONNX model of the profile: it names source lines"
    )
    parser.add_argument(
        "--stage", metavar="NAME", help="stage to read from a folder of MindSpore graphs (default: the last)"
    )


def add_on(parser: argparse.ArgumentParser) -> None:
    """Add the option that says who reads the profiles."""
    parser.add_argument(
        "--on",
        metavar="CLUSTER",
        help="read on the workers of a Dask or Ray cluster (dask://HOST:PORT, ray://HOST:PORT, ray://auto), one task"
        " per rank",
    )


def refuse_on(parser: argparse.ArgumentParser, why: str) -> None:
    """Let ``--on`` be an error that says *why* the command does not take it."""

    def refused(address: str) -> str:
        raise argparse.ArgumentTypeError(f"{address}: {why}; leave out --on")

    parser.add_argument("--on", type=refused, help=argparse.SUPPRESS)


def check_page(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an ``-o`` that names no page, or beside flags that a page does not take."""
    # Imported here: without -o nobody needs it.
    from ...report.html import page

    page.check_name(arguments.output, "-o")
    if arguments.format != "table" or arguments.top is not None:
        raise UsageError(f"-o {arguments.output}: the page has all ops: leave out --format and --top")


def read(path: Path | Url, asked: Asked) -> tuple[list[tuple[formats.Found, SavedProfile]], list[str]]:
    """Read the profile, or for ``--rank all`` every one, in *path*; return also the reason for each one left out.

    Only with ``--partial`` a rank of several that cannot be read is left out; it is named on stderr.
    """
    if asked.model and not asked.sites:
        raise UsageError(f"--model {asked.model}: a model tells only lines: show --by site, diff --by site, convert")
    skips = asked.partial and asked.rank == "all"
    empty: list[Place] = []
    learn_names()  # of backends that are installed: a name means the same live and saved
    read: list[SavedProfile | TraceError]
    if asked.on is not None or isinstance(path, Url):
        found, read = _read_on(path, asked)
    else:
        with _guarded(path), _Progress(path) as progress:
            every = formats.find(Place(path, progress), asked.source, asked.stage, empty if skips else None)
            found = _chosen(every, path, asked.rank)
            in_turn = len(found) == 1 or usable_cores() == 1 or _size(found) < PARALLEL
            read = [_readable(each, asked.how, skips=skips) for each in found] if in_turn else []
        if not in_turn:
            read = _read_in_parallel(found, asked.how, skips=skips)
    for number, saved in enumerate(read):
        if not isinstance(saved, TraceError) and not saved.records:
            lost = "holds no op: nothing ran while it was recorded, or the recording was lost"
            read[number] = TraceError(f"{found[number]}: {lost}")
    wrong = [each for each in read if isinstance(each, TraceError)]
    if wrong and (not skips or len(wrong) == len(read)):
        raise wrong[0]
    left_out = [*(f"{each}: is empty" for each in empty), *map(str, wrong)]
    for why in left_out:
        print(f"opprof: left out: {terminal(why)}", file=sys.stderr)
    profiles = [(each, saved) for each, saved in zip(found, read) if not isinstance(saved, TraceError)]
    if not asked.quiet:
        for each, remark in remarks_of_all([each for each, _ in profiles], [saved for _, saved in profiles]):
            say(each, remark)
    steps = asked.steps
    return [(each, saved if steps is None else in_steps(saved, steps)) for each, saved in profiles], left_out


def _readable(found: formats.Found, how: How, *, skips: bool) -> SavedProfile | TraceError:
    """Read a profile; with *skips* return its error, else raise it."""
    try:
        return formats.read(found, *how)
    except TraceError as error:
        if not skips:
            raise
        return error


def _read_on(path: Path | Url, asked: Asked) -> tuple[list[formats.Found], list[SavedProfile | TraceError]]:
    """Let a cluster read the profiles in *path*. Raises UsageError and TraceError."""
    # Imported here: without --on nobody needs it.
    from . import cluster

    on = asked.on or ""
    cluster.check(on)
    if isinstance(path, Url):
        if asked.stage or asked.model:
            raise UsageError(f"--on {on}: of a URL, takes neither --stage nor --model")
        of_files = cluster.read_urls(on, path, asked.source, asked.rank, asked.how)
        found = _chosen([each for each, _ in of_files], path, asked.rank)
        return found, [next(saved for each, saved in of_files if each is chosen) for chosen in found]
    with _guarded(path):
        found = _chosen(formats.find(Place(path), asked.source, asked.stage), path, asked.rank)
    return found, cluster.read(on, found, asked.how)


def _read_in_parallel(found: Sequence[formats.Found], how: How, *, skips: bool) -> list[SavedProfile | TraceError]:
    """Read profiles in a process for each core; say on a terminal how many were read.

    A result is small: 0.4 MB of 10**6 events, pickled and unpickled in 20 ms where reading takes 1.9 s.
    """
    # Imported here: 20 ms, only for several large profiles.
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # Spawned, so that a process has no more memory than the profile takes that it reads.
    context, others = multiprocessing.get_context("spawn"), set(multiprocessing.active_children())
    read: list[SavedProfile | TraceError] = []
    with ProcessPoolExecutor(min(len(found), usable_cores()), context) as pool:
        try:
            with _ctrl_c_held():
                futures = [
                    pool.submit(
                        _read_one,
                        (each.format, each.place.path, each.place.begin, each.rank, [file.path for file in each.files]),
                        how,
                    )
                    for each in found
                ]
            for future in futures:  # in order, so that of several damaged ranks the first one is named
                try:
                    read.append(future.result())
                except TraceError as error:
                    if not skips:
                        raise
                    read.append(error)
                if sys.stderr.isatty():
                    print(f"\ropprof: read {len(read)} of {len(found)} profiles", end="", file=sys.stderr, flush=True)
        except BrokenProcessPool:
            raise TraceError(
                "a process that read one of these profiles was killed, perhaps for lack of memory. Read one at a"
                f" time:{listed_below(found)}"
            ) from None
        except BaseException:
            # One that cannot be read, or Ctrl-C: the others are ended, and the pool waits until they are.
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise
        finally:
            if read and sys.stderr.isatty():
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return read


def _read_one(found: tuple[str, Path, int, int | None, list[Path]], how: How) -> SavedProfile:
    """Read a profile in a process of its own: nobody there hears of progress."""
    learn_names()
    format_, path, begin, rank, files = found
    with _guarded(path):
        return formats.read(formats.Found(format_, Place(path, begin=begin), rank, tuple(map(Place, files))), *how)


@contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """Hold Ctrl-C back until the context ends, and from processes that are started in here: this one alone answers it.

    They inherit the mask. Ignoring Ctrl-C would do the same for them, and lose it for this process.
    """
    from multiprocessing import resource_tracker

    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))  # where another thread gets it
    has_masks = hasattr(signal, "pthread_sigmask")
    if has_masks:
        resource_tracker.ensure_running()  # where it is started later, that unblocks Ctrl-C
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        if has_masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, before)
    if pressed:
        signal.raise_signal(signal.SIGINT)


def _size(found: Sequence[formats.Found]) -> int:
    """Return about how many bytes there are to read."""
    # Ranks may share a folder.
    paths = {each.place.path for each in found}
    files = [each for path in paths for each in (path.rglob("*") if path.is_dir() else [path]) if each.is_file()]
    return sum(each.stat().st_size * (_INFLATES if each.suffix == ".gz" else 1) for each in files)


def timeline(found: formats.Found, asked: Asked) -> Timeline:
    """Read when everything in a profile ran. Raises UsageError for a format that does not tell."""
    timeline = timeline_if_told(found, asked)
    if timeline is None:
        raise UsageError(f"{found}: {formats.format_of(found.format).title}: {NO_TIMES}{_WITH_TIMES}")
    return timeline


def timeline_if_told(found: formats.Found, asked: Asked) -> Timeline | None:
    """Read when everything in a profile ran; None where the format does not tell."""
    if asked.on and not found.place.path.exists():
        raise UsageError(f"{found}: when everything ran is read on this machine: leave out --on")
    with _guarded(found.place.path):
        return formats.timeline(found, asked.partial)


def check_steps(found: formats.Found, steps: str | None, timeline: Timeline) -> None:
    """Raise UsageError where steps are asked for, and nobody knows when they began."""
    if steps and not timeline.has_steps:
        raise UsageError(f"{found}: --steps {steps}: it has steps, but does not tell when they began")


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    """Read in bounded memory, and fast. Raises TraceError for a profile that takes more."""
    with uncollected():  # 10**6 objects that refer to no other: a third of the time is looking for cycles among them
        try:
            with _bounded(path):
                yield
        except MemoryError:
            raise TraceError(
                f"{path}: takes more memory to read than the {MOST_MEMORY >> 30} GiB that opprof takes, or than there"
                " is. Record fewer steps, or give one rank of several"
            ) from None
        finally:
            gc.freeze()  # nor are they looked through from here on


@contextmanager
def _bounded(path: Path) -> Iterator[None]:
    """Let the process take `MOST_MEMORY` more, beside the file that it maps; more is a MemoryError (Linux only)."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit, setrlimit

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError):
        yield
        return
    mapped = path.stat().st_size if path.is_file() else 0
    soft, hard = getrlimit(RLIMIT_AS)
    limits = [pages * mmap.PAGESIZE + mapped + MOST_MEMORY, *(each for each in (soft, hard) if each != RLIM_INFINITY)]
    setrlimit(RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_AS, (soft, hard))


def remarks(saved: SavedProfile) -> list[str]:
    """Return the remarks on a profile."""
    return [*saved.remarks, *query.untimed(saved)]


def remarks_of_all(names: Sequence[_Name], profiles: Sequence[SavedProfile]) -> list[tuple[_Name, str]]:
    """Return the remarks on all *profiles*, with their names.

    Of more than `MANY` profiles, remarks that differ only by numbers are the first one and the number of others.
    """
    every = [(name, remark) for name, saved in zip(names, profiles) for remark in remarks(saved)]
    if len(profiles) <= MANY:
        return every
    alike: dict[str, list[tuple[_Name, str]]] = {}
    for name, remark in every:
        alike.setdefault(re.sub(r"\d[\d.]*", "N", remark), []).append((name, remark))
    return [
        (name, f"{remark} (similar in {plural(len(others), 'more profile')})" if others else remark)
        for (name, remark), *others in alike.values()
    ]


def check_sites(path: object, saved: SavedProfile) -> None:
    """Raise UsageError for a profile that does not say which lines asked for ops."""
    if not saved.has_sites:
        raise UsageError(f"{path}: {saved.source}: does not tell which lines asked for ops.{_WITH_SITES}")


def say(found: formats.Found, remark: str) -> None:
    """Say something of a profile beside the answer, on stderr."""
    print(f"opprof: {terminal(f'{found}: {remark}')}", file=sys.stderr)


def _chosen(found: Sequence[formats.Found], path: Path | Url, rank: str | None) -> list[formats.Found]:
    if rank == "all":
        return sorted(found, key=lambda each: -1 if each.rank is None else each.rank)
    if rank is not None and not rank.isdecimal():
        raise UsageError(f"--rank {rank!r}: write a number, or all")
    chosen = [each for each in found if rank is None or each.rank == int(rank)]
    if len(chosen) == 1:
        return chosen
    if not chosen:
        raise UsageError(f"{path}: has no rank {rank}; it holds{listed_below(found)}")
    told_apart = len({each.rank for each in chosen} - {None}) == len(chosen)
    how = "choose one by --rank N, or --rank all" if told_apart else "name one, or say --rank all for each of them"
    raise UsageError(f"{path}: holds {len(chosen)} profiles; {how}:{listed_below(chosen)}")


def listed_below(names: Sequence[object], most: int = 20) -> str:
    """Return the first *names*, a line each, for the end of an error message; and how many are left out."""
    lines = [f"\n  {terminal(str(each))}" for each in names[:most]]
    return "".join(lines) + (f"\n  and {len(names) - most} more" if len(names) > most else "")


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
