"""The fence: wait for all work that this thread called in JAX, and prove that the profiler saw it.

Waiting for arrays is not enough: a test drops its results (``model(x)``), and dropped work still runs, in the next
window. XLA's CPU client runs the calls of a thread in order, so a tiny program that is called last is done last. Other
threads launch work on several devices: an all-reduce over all devices comes after it. Calls of other threads are not
waited for. 5 us on one device, 0.15 ms on four (jax 0.7.2, 0.10.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ....errors import BackendError
from .programs import compiling

# The name of its function, and of its programs in profiles and in JAX's events of compilation.
NAME = "opprof_fence"
MODULE, FUNCTION = f"jit_{NAME}", f"jit({NAME})"
# The versions with which all of this backend was tested.
KNOWN = "jax 0.7.2 to 0.10.2"
# The event around each.
ANNOTATION = "opprof::fence"


class Fence:
    """A program on each device, and one over all of them if there are several. Compiled once."""

    def __init__(self, devices: Sequence[Any]) -> None:
        """Compile. Raises BackendError if JAX does not report the compilation."""
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
                    # Compiled ahead, so that no setting of the user (a mesh, guards, checks) changes the call.
                    self._programs.append((jax.jit(opprof_fence).lower(x).compile(), x))

        # In a thread of its own, because a mesh set in this one (jax.set_mesh) would refuse other devices.
        with compiling(lambda ns, function: made.append(function)), ThreadPoolExecutor(1) as thread:
            thread.submit(compile_all).result()
        if made != [FUNCTION] * len(places):
            raise BackendError(
                f"opprof does not know jax {jax.__version__}: it reports compiling {made}. Install {KNOWN}"
            )
        self.devices = devices
        self.calls = len(places)
        """The number of programs that it calls."""
        self.executions = len(devices) * (1 + (len(devices) > 1))
        """The number of their runs on devices, in sum."""

    def wait(self) -> None:
        """Wait. Raises BackendError if JAX cannot run the fence."""
        import jax

        try:
            with jax.disable_jit(False), jax.profiler.TraceAnnotation(ANNOTATION):
                jax.block_until_ready([program(x) for program, x in self._programs])
        except Exception as error:
            raise BackendError(f"JAX failed to run opprof's own program, which waits for the test: {error}") from error
