"""Find the holder of a thing that a call leaves behind, and the line at which a list of such things grows."""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from types import FrameType, ModuleType
from typing import Any, Final, NamedTuple

from ...machine.garbage import referents
from ...sites.code import Kind, kinds, relative
from ...units import plural

# The most objects that are looked for among all referrers: 40 ms each beside PyTorch.
_MOST_LOOKS: Final = 40
_MOST_NODES: Final = 10_000
CONTAINERS = (list, dict, set, deque)
LRU_CACHE: Final = type(lru_cache(int))
_OURS = tuple(f"{__package__}.{name}" for name in ("holders", "leaks", "cycles"))


class Holder(NamedTuple):
    """The path by which the program reaches a thing."""

    name: str
    """``model.history``; empty if unknown."""
    kind: str = ""
    """Of the object with this name: ``list``; empty if that is the thing itself."""
    container: Any = None
    """The list, dict, set or deque that keeps it."""
    cache: Any = None
    """The `lru_cache` of limited size that keeps it."""
    is_left: bool = False
    """Whether the owner is itself left behind, so that something else keeps both."""
    is_none: bool = False
    """Whether no Python object holds it: all that refers to it was looked at."""

    def __str__(self) -> str:
        """Return both: ``model.history (list)``."""
        return f"{self.name} ({self.kind})" if self.kind else self.name


def holder(thing: object, ours: Sequence[object] = (), left: Sequence[object] = ()) -> Holder:
    """Return the path by which the program reaches *thing*, past the lists and dicts between.

    *left* are all objects that the call leaves behind. Many refer back to the thing, but none of them keeps it.
    """
    new, spare = frozenset(map(id, left)), Holder("")
    following: list[Any] = [thing]
    containers: dict[int, Any] = {id(thing): None}
    # All that refers to things because of this search; kept, since a later object may get the id of a freed one.
    own: list[object] = [*ours, left, following, containers]
    for _ in range(_MOST_LOOKS):
        if not following:
            break
        at = following.pop(0)
        container = containers[id(at)]
        if isinstance(at, CONTAINERS) and at is not thing and (container is None or id(container) in new):
            container = at  # one that is left behind does not grow
        own.append(at)
        seen = {id(own), *map(id, own)}
        referrers = [each for each in gc.get_referrers(at) if id(each) not in seen and not _is_ours(each)]
        for each in referrers:  # no generator: its cell would hold *at*
            named, owner = held_as(each, at)
            if named:
                kind = _cache(at) if isinstance(at, LRU_CACHE) else type(at).__name__
                found = Holder(named, "" if at is thing else kind, container, cache=at if is_bounded(at) else None)
                if id(owner) not in new:
                    return found
                spare = spare if spare.name else found._replace(is_left=True)
        # A frame of the call has ended, so a traceback keeps it, and something else that.
        between = [
            each
            for each in referrers
            if id(each) not in containers and (id(each) in new or not isinstance(each, FrameType))
        ]
        containers |= dict.fromkeys(map(id, between), container)
        following += between
        following.sort(key=lambda each: id(each) in new)  # older ones come first
        own += [referrers, between]
    return spare._replace(is_none=not following and not _are_in_a_thread(new))


def _are_in_a_thread(things: Collection[int]) -> bool:
    """Return True if a thread that runs has one of *things*, by id, in a variable: no referrer of theirs tells that."""
    for thread, frame in sys._current_frames().items():
        at: FrameType | None = frame if thread != threading.get_ident() else None
        while at is not None:
            if any(id(each) in things for each in at.f_locals.values()):
                return True
            at = at.f_back
    return False


def outermost(thing: object, left: Sequence[object]) -> object:
    """Return the nearest object that keeps *thing* and that none of the objects *left* by a call refers to; the *thing*
    itself in a cycle.
    """
    every = {id(each): each for each in left}
    referrers: dict[int, list[int]] = {}
    for each in left:
        for one in referents(each):
            if id(one) in every and one is not each:
                referrers.setdefault(id(one), []).append(id(each))
    found = dict.fromkeys([id(thing)])
    following = [*found]
    for at in following:
        if at not in referrers:
            return every.get(at, thing)
        new = [each for each in dict.fromkeys(referrers[at]) if each not in found]
        found |= dict.fromkeys(new)
        following += new
    return thing


def unheld(thing: object) -> str:
    """Return in words that no Python object holds *thing*."""
    name = str(getattr(thing, "__qualname__", ""))
    named = f"the {type(thing).__name__} {name}" if name else f"the {type(thing).__name__}"
    is_tensor = any(each.__name__ == "Tensor" and each.__module__ == "torch" for each in type(thing).__mro__)
    others = "autograd's graph" if is_tensor else "a hook of atexit or os.register_at_fork, or a C extension"
    return f"no Python object holds {named}, but {others} may"


def is_bounded(thing: Any) -> bool:
    """Return True if *thing* is an `lru_cache` of limited size."""
    return type(thing) is LRU_CACHE and bool(thing.cache_info().maxsize)  # no proxy is asked


def _cache(cache: Any) -> str:
    info = cache.cache_info()
    return "lru_cache" if info.maxsize is None else f"lru_cache with {info.currsize:,} of {info.maxsize:,} entries"


def _is_ours(thing: object) -> bool:
    return isinstance(thing, FrameType) and thing.f_globals.get("__name__") in _OURS


def held_as(holder: Any, thing: object) -> tuple[str, object]:
    """Return the name by which a module, a class, an instance or a frame holds *thing*, and this owner; for other
    holders an empty name.
    """
    if isinstance(holder, FrameType):
        return f"{holder.f_code.co_name} at {relative(holder.f_code.co_filename)}:{holder.f_lineno}", holder
    if isinstance(holder, dict):  # of the names of a module or class, or of the attributes of an instance
        names = [key for key, value in list(holder.items()) if value is thing and isinstance(key, str)]
        for owner in gc.get_referrers(holder) if names else ():
            is_class = isinstance(owner, type) and vars(owner).get(names[0]) is thing  # its __dict__ is a proxy
            if is_class or getattr(owner, "__dict__", None) is holder:
                named = owner if isinstance(owner, (ModuleType, type)) else type(owner)
                return f"{named.__name__}.{names[0]}", owner
        return "", holder
    attributes = dict(getattr(holder, "__dict__", {}))
    for each in type(holder).__mro__:
        attributes |= {name: getattr(holder, name, None) for name in getattr(each, "__slots__", ())}
    names = [name for name, value in attributes.items() if value is thing]
    return f"{getattr(holder, '__qualname__', type(holder).__name__)}.{names[0]}" if names else "", holder


def line_that_fills(container: Any, call: Callable[[], object]) -> str:
    """Run the body once more, and return the line of the program at which *container* grows, also in a thread that
    starts meanwhile; empty if none does.

    Of several lines the first that adds something which is there in the end.
    """
    size, last, is_over = len(container), ("", 0), False
    added: list[tuple[str, int]] = []
    """The line of each thing more than at the start."""

    def look() -> None:
        more = max(len(container) - size, 0)
        del added[more:]
        added.extend([last] * (more - len(added)))

    def follow(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal last
        if is_over:  # a thread of the body goes on
            sys.settrace(None)
            return None
        if kinds[frame.f_code.co_filename] is not Kind.TRACED:
            return None
        look()
        at = frame.f_back if event == "return" else frame  # `handlers.append(Handler())` goes on after `__init__`
        while at is not None and kinds[at.f_code.co_filename] is not Kind.TRACED:
            at = at.f_back
        if at is not None:
            last = at.f_code.co_filename, at.f_lineno
        return follow

    before, of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(follow)
    threading.settrace(follow)
    try:
        call()
    finally:
        is_over = True
        threading.settrace(of_threads)
        sys.settrace(before)
    look()
    file, line = next((each for each in added if each[0]), ("", 0))
    return f"{relative(file)}:{line}" if file else ""


def autograd_graph() -> str:
    """Return the path by which the program reaches the tensor with the longest history, which keeps backward's
    inputs.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return ""
    tensors = [each for each in gc.get_objects() if type(each) is torch.Tensor and each.grad_fn is not None]
    sizes = [_nodes(each.grad_fn) for each in tensors]
    if not sizes:
        return ""
    longest = tensors[sizes.index(max(sizes))]
    reached = str(holder(longest, [tensors]))
    return f"the autograd graph of {reached or 'a tensor'}, {plural(max(sizes), 'op')} long"


def _nodes(start: Any) -> int:
    """Return the number of ops that backward would go through, up to a limit."""
    seen, following = {start}, [start]
    while following and len(seen) < _MOST_NODES:
        new = {each for each, _ in following.pop().next_functions if each is not None} - seen
        seen |= new
        following += new
    return len(seen)
