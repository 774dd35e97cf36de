"""The casts that a ufunc makes as it computes: NumPy tells the loop that it takes for given dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def casts_of(given: tuple[Any, ...], ufunc: Any, asked: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield (dtype, new dtype, shape) of each array of *given* that is cast.

    *given* is dtype, shape, dtype, shape ...; *ufunc* is (the ufunc, the kinds of its arguments: a dtype, the letter of
    one, or a type of Python's numbers) if all of them are known; *asked* is the ``dtype=`` of the call.
    """
    dtypes, shapes = given[::2], given[1::2]
    asked = None if asked is None else np.dtype(asked)
    if ufunc is None:
        for dtype, shape in zip(dtypes, shapes) if asked is not None else ():
            if dtype != asked:
                yield dtype, asked, shape
        return
    function, told = ufunc
    kinds = [kind if isinstance(kind, type) else np.dtype(kind) for kind in told]
    arrays = [kind for kind in kinds if isinstance(kind, np.dtype)]
    if asked is None and len(set(arrays)) < 2:
        return  # `ints / 2` computes in another dtype: that is the ufunc's own work
    try:
        how: dict[str, Any] = {}
        if asked is not None:
            how = {"signature": (None,) * function.nin + (asked,) * function.nout, "casting": "unsafe"}
        loop = function.resolve_dtypes((*kinds, *[None] * function.nout), **how)
    except Exception:  # no such loop: the call itself raises, or objects decide
        return
    place = 0
    for kind, to in zip(kinds, loop):
        if isinstance(kind, np.dtype):
            if kind != to:
                yield kind, to, shapes[place]
            place += 1
