"""Find the objects with a finalizer that garbage cycles keep until the garbage collector runs, such as a file closed at
an unknown time, and the memory that they keep at a peak.

Other garbage cycles do not matter: the collector frees them, and nobody waits for that.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import groupby, islice
from types import CellType, FrameType, FunctionType, TracebackType
from typing import Any, NamedTuple
from weakref import ref

from ...machine.garbage import references, referents, uncollected
from ...sites.code import place, relative
from ...units import format_bytes
from .heaviest import heaviest
from .holders import held_as
from .traced import Where, line_of, made_at, traced

_FRAMES = 16


def finalized() -> Mapping[type, int]:
    """Collect garbage, and return the number of objects with a finalizer in it, by type.

    The garbage is freed with the next collection.
    """
    return Counter(map(type, filter(_has_finalizer, _garbage())))


def files() -> Mapping[type, int]:
    """Collect garbage, and return the number of objects in it that hold an open file, by type: such as a socket.

    They are closed with the next collection.
    """
    # A module that is not imported made none.
    loaded = [(sys.modules.get(module), name) for module, name in _WITH_FILES]
    kinds = tuple(kind for module, name in loaded if (kind := getattr(module, name, None)) is not None)
    return Counter(kind for kind in map(type, _garbage()) if issubclass(kind, kinds))


_WITH_FILES = (("_io", "_IOBase"), ("socket", "socket"))  # the collector tracks no epoll


def kept_by(call: Callable[[], object], wanted: Mapping[type, int]) -> Iterator[Where]:
    """Run the body once more; yield a cycle that keeps such objects, and the lines that made these and its members."""
    with traced(_FRAMES) as is_ours:
        if not is_ours:
            return
        call()
        garbage = _garbage()
        found = [each for each in garbage if type(each) in wanted]
        keeps, _ = _cycle(garbage, found)  # first: `vars` makes a dict for each, which is no garbage
        ids = {id(each) for each in garbage}
        # Its referrer, or the referrer of the dict of its attributes, closes the cycle.
        attributes = [vars(each) for each in found if hasattr(each, "__dict__")]
        closing = [each for each in gc.get_referrers(*found, *attributes) if id(each) in ids]
        lines = dict.fromkeys(line for each in [*found, *closing] if (line := _line(each)))
        if not lines:
            # Python 3.11 does not find an instance with a `__dict__`, but it has a size.
            sizes = {sys.getsizeof(each, 0) for each in found}
            at = [each.traceback[-1:] for each in tracemalloc.take_snapshot().traces if each.size in sizes]
            lines = dict.fromkeys(line for each in at if (line := line_of(each)))
    if keeps:
        yield Where(f"kept by the cycle {keeps}")
    yield from made_at([*lines][:_LINES])


def memory_kept(call: Callable[[], object], peak: int, *, on_device: bool = False) -> Sequence[Where]:
    """Run the body once more; return in words the cycle that keeps a quarter or more of the *peak*, in bytes: of arrays
    of NumPy and PyTorch on the host, or on a device (*on_device*), else of other objects on the host.

    When the collector runs decides how much of it is in a peak: 7.3 or 8.6 of 12.2 MiB in jaxtyping's test.
    """
    least = max(peak // _NOTABLE_PART, 1)
    gc.collect()
    with uncollected(), nullcontext() if on_device else traced(1):
        call()
        garbage = _garbage()
        kept = _arrays(garbage, on_device)
        are_arrays = sum(each.nbytes for each in kept) >= least
        if not garbage or (on_device and not are_arrays):
            return []
        cycle, line = Where("")
        if len(garbage) <= _MOST_GARBAGE and are_arrays:
            cycle, line = _that_keeps(garbage, max(kept, key=lambda each: each.nbytes).array)
        elif len(garbage) <= _MOST_GARBAGE:
            cycle, line = _heaviest(garbage, least)
        sizes = [(each.is_freed, each.nbytes) for each in kept]
        before = tracemalloc.get_traced_memory()[0] - sys.getsizeof(garbage)
        del garbage, kept
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    of_arrays = sum(nbytes for is_freed, nbytes in sizes if is_freed())  # the program holds the others, too
    kind, total = ("arrays", of_arrays) if are_arrays else ("objects", before - after)
    if total < least:
        return []
    keep = f"the cycle {cycle} keeps" if cycle else "cycles keep"
    return [Where(f"{keep} up to {format_bytes(min(total, peak))} of {kind} until the garbage collector runs", line)]


def _that_keeps(garbage: Sequence[object], array: object) -> Where:
    ids = {*map(id, garbage)}
    return _cycle(garbage, [each for each in (array, *gc.get_referrers(array)) if id(each) in ids])


def _heaviest(garbage: Sequence[object], least: int) -> Where:
    """Return the cycle that keeps most memory, with others of its kind; nothing if they do not keep *least* bytes."""
    members, nbytes = heaviest(garbage)
    if nbytes < least:
        return Where("")
    # An exception that its own frame keeps has a cycle through its traceback, beside cycles of what the frames hold.
    return _cycle(members, [each for each in members if isinstance(each, TracebackType)] or members)


class _Array(NamedTuple):
    """An array to which garbage refers."""

    array: Any
    nbytes: int
    """Of the memory that it shares with its views."""
    is_freed: Callable[[], bool]


def _arrays(garbage: Sequence[object], on_device: bool) -> Sequence[_Array]:
    """Return an array for each memory of NumPy and PyTorch to which the garbage refers.

    No code of the program runs: objects may have any attributes, and their finalizers ran.
    """
    numpy, torch = (sys.modules.get(name) for name in ("numpy", "torch"))
    found: dict[int, _Array] = {}
    # No collector tracks an array of NumPy.
    untracked = (one for each in garbage for one in referents(each) if not gc.is_tracked(one))
    for each in (*garbage, *untracked):
        array: Any = each
        if numpy and not on_device and issubclass(type(array), numpy.ndarray):
            owner = array
            while isinstance(owner.base, numpy.ndarray):
                owner = owner.base
            if owner.base is None:  # else the memory is of a file or of another library
                found[id(owner)] = _Array(array, owner.nbytes, partial(_is_gone, ref(owner)))
        elif torch and issubclass(type(array), torch.Tensor):
            with suppress(Exception), torch._C.DisableTorchFunctionSubclass():  # a sparse tensor has no storage
                storage = torch.Tensor.untyped_storage(array)
                if storage.device.type != "meta" and (storage.device.type != "cpu") is on_device:
                    weak = torch.multiprocessing.reductions.StorageWeakRef(storage)
                    found[storage._cdata] = _Array(array, storage.nbytes(), weak.expired)
    return [*found.values()]


def _is_gone(weak: ref[object]) -> bool:
    return weak() is None


# Of a peak: less is not its cause.
_NOTABLE_PART = 4
# In more garbage no cycle is looked for: 7 s in a million lists.
_MOST_GARBAGE = 100_000
_LINES = 3


def _cycle(garbage: Sequence[object], found: Sequence[object]) -> Where:
    """Return the nearest cycle in the *garbage* that keeps the objects *found*: ``Session.closer -> method``, and the
    line of a frame or function in it; empty if there is none.
    """
    every, refers = references(garbage)
    referrers: dict[int, list[int]] = {at: [] for at in every}
    for at, to in refers.items():
        for one in to:
            referrers[one].append(at)
    for at in islice(_reached(map(id, found), referrers, _MOST_TRIED), _MOST_TRIED):
        came_from = _reached(refers[at], refers, _MOST_SEEN)
        if at not in came_from:
            continue
        path, back = [at], came_from[at]
        while back is not None:
            path.append(back)
            back = came_from[back]
        return _in_words([every[at], *(every[each] for each in reversed(path[1:]))])
    return Where("")


def _in_words(things: Sequence[object]) -> Where:
    """Return the names of the members of a cycle, and the line of the first that has one."""
    shown = [each for each in things if type(each) not in _BETWEEN] or things
    following = [*shown[1:], shown[0]]
    names = [_name(each, one) for each, one in zip(shown, following)]
    # A cycle begins anywhere; an exception that its frame keeps, or an attribute, is easiest to find.
    after = next((number for number, each in enumerate(shown, 1) if isinstance(each, FrameType)), None)
    are_attributes = ("." in name and not isinstance(each, FunctionType) for each, name in zip(shown, names))
    first = next((number for number, is_attribute in enumerate(are_attributes) if is_attribute), 0)
    first = first if after is None else after % len(names)
    counted = [(name, len([*same])) for name, same in groupby([*names[first:], *names[:first]])]
    text = " -> ".join(name if number == 1 else f"{number} x {name}" for name, number in counted)
    return Where(text, next(filter(None, map(_place, shown)), ""))


# Objects between an instance and its attribute, or a function and its variable.
_BETWEEN = (dict, tuple, CellType)
# The most objects from which a cycle is looked for, and which it is looked for in.
_MOST_TRIED, _MOST_SEEN = 100, 10_000


def _reached(starts: Iterable[int], edges: Mapping[int, Sequence[int]], most: int) -> dict[int, int | None]:
    """Return the first nodes reached from *starts*, the nearest first, each with the one before it."""
    found: dict[int, int | None] = dict.fromkeys(starts)
    left = deque(found)
    while left and len(found) < most:
        at = left.popleft()
        new = [each for each in edges[at] if each not in found]
        found |= dict.fromkeys(new, at)
        left += dict.fromkeys(new)
    return found


def _garbage() -> list[object]:
    """Return the objects that only the collector would free, finalizers called; they are freed with the list."""
    flags, before = gc.get_debug(), len(gc.garbage)
    gc.set_debug(flags | gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(flags)
    found = gc.garbage[before:]
    del gc.garbage[before:]
    return found


def _has_finalizer(thing: object) -> bool:
    """Return True if the class of a thing has a finalizer written in Python; generators have one in C."""
    return any(isinstance(each.__dict__.get("__del__"), FunctionType) for each in type(thing).__mro__)


def _name(thing: object, following: object) -> str:
    """Return the name of a thing in a cycle; *following* is the next one."""
    if named := held_as(thing, following)[0]:
        return f"frame of {named}" if isinstance(thing, FrameType) else named
    return f"{thing.__qualname__} at {_place(thing)}" if isinstance(thing, FunctionType) else type(thing).__name__


def _place(thing: object) -> str:
    """Return the line of a frame, or of a function's definition; empty for other things."""
    if isinstance(thing, FrameType):
        return f"{relative(thing.f_code.co_filename)}:{thing.f_lineno}"
    return place(thing.__code__) if isinstance(thing, FunctionType) else ""


def _line(thing: object) -> str:
    return line_of(tracemalloc.get_object_traceback(thing) or ())
