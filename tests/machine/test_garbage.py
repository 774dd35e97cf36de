from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from pytest_opprof.machine.garbage import uncollected


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_the_collector_is_off_inside_and_as_before_afterwards(enabled: bool, raises: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    try:
        with suppress(ValueError), uncollected():
            assert not gc.isenabled()
            if raises:
                raise ValueError
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
