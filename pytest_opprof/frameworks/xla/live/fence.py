"""The fence: it waits until all is done that this thread asked JAX for, and shows that the profiler saw it.

To wait for arrays is not enough: a test drops its results (``model(x)``), and what is dropped still runs, in the next
window. XLA's CPU client runs the calls of a thread in order, so a tiny program that is called last is done last. What
runs on several devices is launched by other threads: an all-reduce over all devices comes after it. What other threads
called is not waited for. 5 us on one device, 0.15 ms on four (jax 0.7.2, 0.10.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ....errors import BackendError
from .programs import compiling

MODULE, FUNCTION = "jit_opprof_fence", "jit(opprof_fence)"
"""The name of its programs, in profiles and where JAX tells what it compiles."""
KNOWN = "jax 0.7.2 to 0.10.2"
"""The versions that all of this backend was tried with."""
ANNOTATION = "opprof::fence"
"""The event around each."""


class Fence:
    """A program on each device, and one over all of them if there are several. Compiled once."""

    def __init__(self, devices: Sequence[Any]) -> None:
        """Compile. Raises BackendError where JAX does not tell that it compiled."""
        import jax
        import numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

        def opprof_fence(x: Any) -> Any:
            return x.sum()

        places: list[Any] = [SingleDeviceSharding(device) for device in devices]
        if len(devices) > 1:
            places.insert(0, NamedSharding(Mesh(np.array(devices), ("all",)), PartitionSpec("all")))
        self._programs: list[tuple[Any, Any]] = []
        made: list[str] = []

        def compile_all() -> None:
            with jax.disable_jit(False), jax.transfer_guard("allow"):
                for place in places:
                    x = jax.device_put(np.zeros(len(devices), np.float32), place)
                    # Compiled ahead, so that nothing that the user sets (a mesh, guards, checks) changes the call.
                    self._programs.append((jax.jit(opprof_fence).lower(x).compile(), x))

        # In a thread of its own, as a mesh that this one has set (jax.set_mesh) would refuse other devices.
        with compiling(lambda ns, function: made.append(function)), ThreadPoolExecutor(1) as thread:
            thread.submit(compile_all).result()
        if made != [FUNCTION] * len(places):
            raise BackendError(f"jax {jax.__version__} does not tell what it compiles as {KNOWN} do, but {made}")
        self.devices = devices
        self.calls = len(places)
        """How many programs it calls."""
        self.executions = len(devices) * (1 + (len(devices) > 1))
        """How often these run on a device, in sum."""

    def wait(self) -> None:
        """Wait. Raises BackendError where JAX cannot run the fence."""
        import jax

        try:
            with jax.disable_jit(False), jax.profiler.TraceAnnotation(ANNOTATION):
                jax.block_until_ready([program(x) for program, x in self._programs])
        except Exception as error:
            raise BackendError(f"JAX could not run a program of opprof's to wait for the test's: {error}") from error
