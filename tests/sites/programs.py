"""Programs whose chains of calls are easily got wrong: they wait, go on, throw, and end out of order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

from .ops import op


def echo(n: int) -> Generator[int, Any, None]:
    for each in range(n):
        got = op((yield op(each)))
        op(got)


def deep(n: int) -> object:
    return op(n) and deep(n - 1)


def generators() -> None:
    for each in echo(2):
        op(each)
    some = echo(3)
    next(some)
    op(some.send(1), deep(1))
    some.close()
    op(sum(each for each in echo(2)), op(), max(op(each) for each in echo(2)))

    def outer() -> Iterator[int]:
        op((yield from echo(2)), op())
        op()

    op(list(outer()))


def begun() -> Generator[int, None, None]:
    yield 0
    op(0)
    yield op(1)
    op(2)


def hardly_thrown() -> Generator[object, None, object]:
    try:
        yield op(1)
    except ValueError:
        return op()


def thrown() -> Generator[object, None, None]:
    op((yield from hardly_thrown()), op())
    op()
    yield op(1)


def throws() -> None:
    def outer() -> Generator[object, None, None]:
        op((yield from thrown()), op())

    some = outer()
    next(some)
    some.throw(ValueError())  # swallowed two generators further in
    op(deep(2))
    op(list(some))
    some = outer()
    next(some)
    some.close()
    op()
    some = outer()
    next(some)
    try:
        some.throw(KeyError())
    except KeyError:
        op(deep(1))
    op()


@contextlib.contextmanager
def scope() -> Iterator[object]:
    op()
    try:
        op((yield op()))
    finally:
        op()


def contexts() -> None:
    with scope() as a, scope() as b:
        op(a, op(b))
    with contextlib.suppress(ZeroDivisionError), scope(), scope():
        op(1 / 0)
    with contextlib.ExitStack() as stack:
        stack.enter_context(scope())
        stack.callback(deep, 2)
        op()
    op()


async def worker(n: int) -> object:
    op()
    await asyncio.sleep(0)
    op(await asyncio.sleep(0, n), op())
    return op(n)


async def leader(n: int) -> object:
    op(await worker(n), op(await worker(n + 1)))
    return op(await worker(n), deep(1))


async def items() -> AsyncIterator[int]:
    for each in range(2):
        op((yield op(each)))
        await asyncio.sleep(0)
        op()


class Session:
    async def __aenter__(self) -> None:
        op()
        await asyncio.sleep(0)
        op()

    async def __aexit__(self, *error: object) -> None:
        op()
        await asyncio.sleep(0)
        op()


def coroutines() -> None:
    async def main() -> None:
        op(await asyncio.gather(leader(1), leader(2), worker(3)), op())
        async for each in items():
            op(each)
        op([op(each) async for each in items()])
        async with Session():
            op()
            await asyncio.sleep(0)
            op()

    op(asyncio.run(main()), deep(1))


async def patient(is_late: bool) -> object:
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        op()
        if is_late:
            await asyncio.sleep(0)
            op()
    return op(1)


async def around(is_late: bool, n: int) -> object:
    if n == 0:
        return op(await patient(is_late), op())
    result = op(await around(is_late, n - 1), deep(1))
    op()
    return op(await asyncio.sleep(0, result), op())


def cancelled() -> None:
    async def main() -> None:
        for is_late in (False, True):
            tasks = [asyncio.ensure_future(around(is_late, n)) for n in range(3)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            op([each.cancel() for each in tasks], deep(1))
            op(await asyncio.gather(*tasks), op())
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(100), 0)
        op()

    op(asyncio.run(main()), op())


PROGRAMS = [generators, throws, contexts, coroutines, cancelled]
