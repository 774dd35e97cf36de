"""Find leaks of each call of a body: objects, memory, threads, files and processes that grow with every call.

Tried on 1,414 tests of pandas, SciPy, scikit-learn and astropy: no type that Python's collector tracks grows in each of
four calls, except weak references (in 291 tests of pandas, a list that its copy-on-write clears at thresholds). So weak
references alone are a leak only where their container grows on and on (asgiref's `Local`). Growth that ends, such as a
filling cache, is none either.
"""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import tracemalloc
import weakref
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from ...machine.garbage import frozen_again, older_objects_apart, referents
from ...machine.left import InUse, in_use, open_files, with_threads_ended
from ...sites.code import Kind, first_part, in_package, is_test_tool, kinds, place
from ...units import format_bytes, plural
from ...verdict.quantities import OPEN_THINGS
from . import cycles
from .holders import CONTAINERS, autograd_graph, holder, is_bounded, line_that_fills, outermost, unheld
from .traced import Where, joined, line_of, made_at, traced

WARMUPS: Final = 2
CALLS: Final = 4
# The longest body that runs so often where it keeps memory.
OFTEN_NS: Final = 1_000_000_000
# For memory without a Python object: allocators round, and pools grow by pages.
LEAST_BYTES: Final = 1 << 16
# Where three of four calls add the same number, no allocator rounds: read_csv of pandas 2.2.0 left 16,960 behind.
LEAST_EQUAL_BYTES: Final = 1 << 12
# For Python's memory without an object that the collector tracks: caches and interned strings add a few.
LEAST_BLOCKS: Final = 100
_FRAMES: Final = 16
# The most calls for filling caches.
_MOST_FILLING: Final = 50
# More weak references than this pandas removes when their objects are dead; its first threshold is 500.
_MOST_DEAD: Final = 1_000
# The least weak references of a call that are told from these in `_MOST_FILLING` calls.
LEAST_WEAK: Final = _MOST_DEAD // _MOST_FILLING
# The most lines and kinds that are reported.
_LINES, _KINDS = 3, 3
_IN_A_CYCLE: Final = " in a cycle"
# The decoder of a text file, which the file holds: on Python 3.11 no object that the collector tracks does.
_OF_FILES: Final = ("codecs", "encodings")
WEAK = (weakref.ReferenceType, weakref.ProxyType, weakref.CallableProxyType)


@dataclass(frozen=True, slots=True)
class Left:
    """The leftovers of each call, at least."""

    objects: Mapping[str, int]
    """By type, or kind of thing (thread, open file, process): the number."""
    nbytes: int = 0
    """The growth of allocated memory; 0 if below `LEAST_BYTES`, or `LEAST_EQUAL_BYTES` if three calls add the same."""
    where: tuple[str, ...] = ()
    """Their holders, and the lines that made them, in words."""
    blocks: int = 0
    """The growth of Python's memory without an object that is known; 0 if below `LEAST_BLOCKS`."""
    device_bytes: int = 0
    """The growth of device memory; frameworks report it exactly."""
    line: str = ""
    """The line at which the holder grows, else the first that made them: ``engine.py:9``; empty if unknown."""
    filled: tuple[Where, ...] = ()
    """The bounded caches that calls fill, which are no leak, but may keep memory."""

    @property
    def number(self) -> int:
        """The number of things left behind; memory without an object counts as one, since its size varies a little."""
        return sum(self.objects.values()) or int(self.nbytes + self.device_bytes > 0 or self.blocks > 0)

    @property
    def open(self) -> int:
        """The number of threads, open files and processes."""
        return sum(n for kind, n in self.objects.items() if kind.removesuffix(_IN_A_CYCLE) in OPEN_THINGS.values())

    def __str__(self) -> str:
        """Return a remark: ``each call leaves behind 1 list, 1 Tensor (4 MiB); held by ...``."""
        things = [_counted(number, kind) for kind, number in self.objects.items()]
        more = [plural(len(things) - _KINDS, "more kind")] if len(things) > _KINDS else []
        sizes = [format_bytes(self.nbytes)] if self.nbytes else []
        sizes += [f"{format_bytes(self.device_bytes)} on the device"] if self.device_bytes else []
        size = f" ({', '.join(sizes)})" if sizes else ""
        of_python = f"about {self.blocks // LEAST_BLOCKS * LEAST_BLOCKS:,} strings or numbers that nothing holds"
        memory = "memory outside of Python" if self.nbytes else "memory"
        told = ", ".join([*things[:_KINDS], *more]) or (of_python if self.blocks else memory)
        return "; ".join([f"each call leaves behind {told}{size}", *self.where])


def _counted(number: int, kind: str) -> str:
    noun = kind.removesuffix(_IN_A_CYCLE)
    return plural(number, noun) + kind.removeprefix(noun) if noun in OPEN_THINGS.values() else f"{number} {kind}"


@frozen_again()
def left_by(call: Callable[[], object], warmups: int = WARMUPS, device_bytes: Callable[[], int] = lambda: 0) -> Left:
    """Run the body as a *call*, *warmups* times first, and return the leftovers of each of `CALLS` calls.

    *device_bytes* returns the device memory that the program holds. If anything grows, as many calls follow to find it.
    """
    call = with_threads_ended(call)
    for _ in range(warmups):
        call()
    least, finalized = _growth(call, device_bytes)
    filled = _fill_caches(call) if any(least.values()) else []
    if filled:
        least, finalized = _growth(call, device_bytes)
    objects = {thing: least[name] for name, thing in OPEN_THINGS.items() if least[name]}
    if least["files_in_cycles"]:
        objects[OPEN_THINGS["files"] + _IN_A_CYCLE] = least["files_in_cycles"]
    objects |= {f"{_name(kind)} with a finalizer{_IN_A_CYCLE}": number for kind, number in finalized.items()}
    where: list[Where] = [*cycles.kept_by(call, finalized)] if finalized else []
    if least["blocks"] or least["allocated_bytes"] or least["device_bytes"]:
        grown = _grown_types(call)
        are_weak = any(issubclass(kind, WEAK) for kind in grown)
        grown = {kind: number for kind, number in grown.items() if not issubclass(kind, WEAK)}
        left = dict(sorted(grown.items(), key=lambda each: _rank(each[0])))
        where += _held(call, left, forgives_caches=not least["allocated_bytes"]) if left else ()
        objects |= {_name(kind): number for kind, number in left.items()}
        if not grown:
            # Numbers, strings and arrays are tracked by no collector, but the list that keeps them grows. A dict of
            # such things is not tracked itself, and is found by its referrers: in a second pass, as that takes longer.
            in_containers = _grown_containers(call, False)
            for held_by, kind, number in in_containers or ([] if are_weak else _grown_containers(call, True)):
                objects[kind] = objects.get(kind, 0) + number
                where.append(held_by)
    # Strings and numbers whose references a C function counts wrongly: nothing holds them.
    blocks, nbytes = 0 if objects else least["kept_blocks"], least["allocated_bytes"]
    is_little = 0 < nbytes <= LEAST_BYTES and not objects
    on_device = least["device_bytes"]
    if blocks or is_little or (on_device and not objects):
        again, _ = _growth(call, device_bytes)  # a cache of a few entries is full by now
        blocks, on_device = min(blocks, again["kept_blocks"]), min(on_device, again["device_bytes"])
        nbytes = again["allocated_bytes"] if is_little else nbytes
    where += made_at(_most_common(_after(call)[0])) if blocks else []
    said = tuple(each.text for each in where)
    return Left(objects, nbytes, said, blocks, on_device, joined(where).line, tuple(map(_cache, filled)))


def left_open_by(call: Callable[[], object]) -> Left:
    """Run the body as a *call* twice, and return the threads, files and processes that each call leaves behind."""
    seen, in_cycles, call = list[InUse](), list[int](), with_threads_ended(call)
    holding: Mapping[type, int] = {}
    for number in range(3):
        if number:
            call()
        files = open_files()
        holding = cycles.files()
        gc.collect()
        seen.append(in_use())
        in_cycles.append(files - seen[-1].files)
    grown = {name: min(getattr(b, name) - getattr(a, name) for a, b in pairwise(seen)) for name in OPEN_THINGS}
    objects = {thing: grown[name] for name, thing in OPEN_THINGS.items() if grown[name] > 0}
    closed = min(in_cycles[1:])
    if closed > 0:
        objects[OPEN_THINGS["files"] + _IN_A_CYCLE] = closed
    target = getattr(threading.enumerate()[-1], "_target", None) if OPEN_THINGS["threads"] in objects else None
    code = getattr(target, "__code__", None) if target is not None and _is_own(target) else None
    where = [Where(f"the newest thread runs `{code.co_name}` at {place(code)}", place(code))] if code else []
    where += cycles.kept_by(call, holding) if closed > 0 and holding else []
    return Left(objects, where=tuple(each.text for each in where), line=joined(where).line)


def _fill_caches(call: Callable[[], object]) -> list[Any]:
    """Run the body until the bounded `lru_cache`s that it fills are full; return them, or none if that takes longer.

    yarl's of 128 URLs grows in each of seven calls that make 20 new ones. More than `_MOST_FILLING` calls are not
    made, because a body that leaks leaks in each.
    """
    bounded = [each for each in gc.get_objects() if is_bounded(each)]
    sizes = [each.cache_info().currsize for each in bounded]
    call()
    growing, calls_left = [], 0
    for each, size in zip(bounded, sizes):
        info = each.cache_info()
        if info.currsize > size:
            growing.append(each)
            calls_left = max(calls_left, ((info.maxsize or 0) - info.currsize) // (info.currsize - size))
    if not growing or calls_left > _MOST_FILLING:
        return []
    for _ in range(_MOST_FILLING):
        if all(each.cache_info().currsize == each.cache_info().maxsize for each in growing):
            return growing
        call()
    return []


def _cache(cache: Any) -> Where:
    """Return the name of an `lru_cache`, its size, and the line of its function."""
    function = inspect.unwrap(cache)
    code = getattr(function, "__code__", None)
    line = place(code) if code else ""
    name = getattr(function, "__qualname__", "a function")
    at = f" at {line}" if line else ""
    return Where(f"the cache of `{name}`{at} keeps the last {cache.cache_info().maxsize:,} calls", line)


def _growth(call: Callable[[], object], device_bytes: Callable[[], int]) -> tuple[dict[str, int], Mapping[type, int]]:
    """Return the growth that three of four calls reach, by field of `InUse`; of blocks, that which two reach.

    Also return what only the collector frees: files of each of the last three calls (``files_in_cycles``: dnspython's
    20 selectors), and objects with a finalizer of the last.
    """
    finalized: Mapping[type, int] = {}
    files = array("q", bytes(8 * (CALLS + 1)))
    # Nothing of opprof's may grow meanwhile, so this has its full size before.
    seen = array("q", bytes(8 * len(InUse._fields) * (CALLS + 1)))
    fields = range(len(InUse._fields))
    with older_objects_apart():
        in_use(device_bytes)  # its first call loads modules
        for number in range(CALLS + 1):
            if number:
                call()
            files[number] = open_files()
            if number == CALLS:
                finalized = cycles.finalized()  # which closes files
            gc.collect()
            for field, value in enumerate(in_use(device_bytes)):
                seen[number * len(fields) + field] = value
    steps = range(len(fields), len(seen), len(fields))
    grown = {
        name: sorted(seen[at + field] - seen[at + field - len(fields)] for at in steps)
        for field, name in enumerate(InUse._fields)
    }
    # One call may allocate by chance; a leak grows in the other three, too. Blocks only decide whether to search: two
    # calls of four may free what others left (seen: +0, +2, +3, +0 where each call keeps a list).
    least = {name: max(each[2 if name == "blocks" else 1], 0) for name, each in grown.items()}
    least["kept_blocks"] = grown["blocks"][1] if grown["blocks"][1] >= LEAST_BLOCKS else 0
    closed = [files[at] - seen[at * len(fields) + InUse._fields.index("files")] for at in range(2, CALLS + 1)]
    least["files_in_cycles"] = max(min(closed), 0)
    of_bytes = grown["allocated_bytes"]
    are_equal = of_bytes[0] >= 0 and (of_bytes[0] == of_bytes[2] or of_bytes[1] == of_bytes[3])
    if least["allocated_bytes"] <= (LEAST_EQUAL_BYTES if are_equal else LEAST_BYTES):
        least["allocated_bytes"] = 0
    return least, finalized


def _grown_types(call: Callable[[], object]) -> dict[type, int]:
    """Return the types with more objects after each call, with the least number.

    Older objects count, too: a full cache replaces some of them by as many new ones.
    """

    def types() -> Counter[type]:
        gc.collect()
        return Counter(map(type, gc.get_objects()))

    first = types()
    new = [Counter[type]()]
    with older_objects_apart():
        for _ in range(CALLS):
            call()
            new.append(types())
    last = types()
    found = {}
    for kind in new[-1]:
        least = min(after[kind] - before[kind] for before, after in pairwise(new))
        least = min(least, (last[kind] - first[kind]) // CALLS)
        # Not pytest's own records of hooks.
        if least > 0 and kind is not Counter and not is_test_tool(first_part(str(kind.__module__))):
            found[kind] = least
    return found


def _held(call: Callable[[], object], types: dict[type, int], *, forgives_caches: bool) -> Iterator[Where]:
    """Yield the holder of an object of *types* that a call leaves behind, and the lines that made such objects.

    *forgives_caches*: types whose objects a package's cache of limited size holds are removed, as they are no leak:
    urllib keeps 128 URLs.

    The object outlives `CALLS` more calls. PettingZoo's `reset` makes new barriers, which the environment holds until
    the next one, and adds handlers of theirs to a list: that list is the holder.
    """
    lines, every, left = _after(call, types, CALLS)
    kind = min({type(each) for each in every}, key=_rank, default=None)
    made = [each for each in every if type(each) is kind]
    if made:
        thing = outermost(made[-1], left)
        found = holder(thing, [every, made], left)
        if not found.name:
            inner = holder(made[-1], [every, made], left)
            found = found if found.is_none and (inner.is_left or not inner.name) else inner
        if forgives_caches and found.cache is not None and not _is_own(inspect.unwrap(found.cache)):
            del types[type(made[-1])]
            yield from _held(call, types, forgives_caches=True) if types else ()
            return
        if held_by := str(found) or autograd_graph():
            yield _held_by(held_by, found.container, call)
        elif found.is_none:
            yield Where(unheld(thing))
            lines = _after(call, [type(thing)])[0] or lines
    yield from made_at(_most_common(lines))


def _after(
    call: Callable[[], object], types: Collection[type] = (), more: int = 0
) -> tuple[Counter[str], list[Any], list[Any]]:
    """Return the lines that made the leftovers of a *call*, with sizes; no line if the program traces memory itself.

    Only lines that made objects of some *types*, if these are known: a type's cache is larger than its first object.
    Also return its objects of these types, and all objects that it leaves behind. With *more* calls: the former that
    outlive these, and the latter of all calls.
    """
    places: dict[int, Sequence[tracemalloc.Frame]] = {}
    every: Sequence[tracemalloc.Trace] = ()
    with older_objects_apart():
        with traced(_FRAMES) as is_ours:
            call()
            gc.collect()
            left = gc.get_objects()
            if is_ours:
                made = [each for each in left if type(each) in types]
                places = {id(each): at for each in made if (at := tracemalloc.get_object_traceback(each))}
                del made
            if is_ours and not _lines((at, 1) for at in places.values()):
                every = tracemalloc.take_snapshot().traces
        older = {id(each) for each in left}
        newer = set[int]()
        if more:
            del left  # which would keep all of them
            gc.freeze()  # a later object may get the id of a freed one, but is not among these
            for _ in range(more):
                call()
            gc.collect()
            newer.update(map(id, gc.get_objects()))
    if more:
        gc.collect()  # cycles among the frozen objects
        left = [each for each in gc.get_objects() if id(each) in older or id(each) in newer]
    every_made = [each for each in left if type(each) in types and each is not newer]
    # None outlives them where a list is made anew and longer each time.
    made = [each for each in every_made if id(each) not in newer] or every_made
    lines = _lines((places[id(each)], 1) for each in made if id(each) in places)
    lines = lines or _lines((at, 1) for at in places.values())
    if every and not lines:
        # Python 3.11 does not find an instance with a `__dict__`, but it has a size.
        sizes = {sys.getsizeof(each, 0) for each in made}
        lines = _lines((each.traceback, 1) for each in every if each.size in sizes)
        lines = lines or _lines((each.traceback, each.size) for each in every)
    return lines, made, left


def _lines(traces: Iterable[tuple[Sequence[tracemalloc.Frame], int]]) -> Counter[str]:
    """Return the program's lines of allocations that a call made, with the sum of their sizes."""
    by_frames = Counter[Sequence[tracemalloc.Frame]]()  # thousands of objects come from a few places
    for frames, size in traces:
        by_frames[frames] += size
    lines = Counter[str]()
    for frames, size in by_frames.items():
        files = [frame.filename for frame in frames]  # the oldest first
        inside = len(files) - files[::-1].index(__file__) if __file__ in files else 0
        if line := line_of(frames[inside:]):
            lines[line] += size
    return lines


def _most_common(lines: Counter[str]) -> list[str]:
    return [line for line, _ in lines.most_common(_LINES)]


def _grown_containers(call: Callable[[], object], untracked: bool) -> list[tuple[Where, str, int]]:
    """Return the containers that each call makes longer, the types of their contents, and their growth."""
    sizes = {id(each): len(each) for each in _containers(untracked)}
    call()
    grown = [
        (each, len(each), len(each) - sizes[id(each)])
        for each in _containers(untracked)
        if len(each) > sizes.get(id(each), len(each)) and each is not sizes
    ]
    for _ in range(CALLS - 1):
        call()
        grown = [(each, len(each), min(more, len(each) - size)) for each, size, more in grown if len(each) > size]
    found = []
    weak = [(each, more) for each, _, more in grown if all(isinstance(one, WEAK) for one in _newest(each, more))]
    cleared = {id(each) for each, _ in weak} - _never_cleared(weak, call)
    for each, _, more in grown:
        newest = _newest(each, more)
        if id(each) not in cleared and (by := holder(each, [sizes, grown, weak])).name:
            held_by = _held_by(f"{by.name} ({by.kind or type(each).__name__})", each, call)
            found.append((held_by, _name(type(newest[-1])), more))
    return found


def _newest(container: Any, number: int) -> list[Any]:
    return list(container.values() if isinstance(container, dict) else container)[-number:]


def _never_cleared(weak: Sequence[tuple[Any, int]], call: Callable[[], object]) -> set[int]:
    """Return the containers of weak references, by id, that grow on and on: nobody removes dead references.

    *weak* has the growth of each with a call. One that grows too slowly to tell in `_MOST_FILLING` calls is left out.
    """
    wanted = [(each, len(each) + _MOST_DEAD) for each, more in weak if more >= LEAST_WEAK]
    found = set[int]()
    for _ in range(_MOST_FILLING):
        if not wanted:
            break
        before = [len(each) for each, _ in wanted]
        call()
        found |= {id(each) for each, enough in wanted if len(each) >= enough}
        wanted = [
            (each, enough) for (each, enough), size in zip(wanted, before) if size < len(each) and id(each) not in found
        ]
    return found


def _held_by(name: str, container: Any, call: Callable[[], object]) -> Where:
    line = "" if container is None else line_that_fills(container, call)
    return Where(f"held by {name}" + (f", which grows at {line}" if line else ""), line)


def _containers(untracked: bool) -> list[Any]:
    """Return all lists, dicts, sets and deques that the collector tracks, or only the dicts that it does not."""
    tracked = gc.get_objects()
    if not untracked:
        return [each for each in tracked if type(each) in CONTAINERS]
    found = {}
    for at in range(0, len(tracked), 10_000):
        for each in referents(*tracked[at : at + 10_000]):
            if type(each) is dict and not gc.is_tracked(each):
                found[id(each)] = each
    return list(found.values())


def _rank(kind: type) -> tuple[int, str]:
    """Return a key that puts the most telling types first: the project's own, of packages, of the standard library,
    built-in ones (lists and cells inside the others), and of private modules (``_contextvars.Context``).
    """
    module = str(kind.__module__)
    package = first_part(module)
    if _is_own(kind):
        return 0, _name(kind)
    if package.startswith("_") or package in _OF_FILES:
        return 4, _name(kind)
    return 3 if module == "builtins" else 2 if package in sys.stdlib_module_names else 1, _name(kind)


def _is_own(thing: Any) -> bool:
    """Return True if a class or function is of the program, and of no package that it calls."""
    file = getattr(sys.modules.get(str(thing.__module__)), "__file__", None) or ""
    return bool(file) and kinds[file] is Kind.TRACED and not in_package(file)


def _name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
