"""A million records of CUPTI -> columns: opprof's decoder against the library's own walk, record by record.

Run ``python benchmarks/read_cupti.py [--records N] [--rounds N]`` where libcupti is installed; no GPU is needed. Prints
microseconds a record, the ratio, and the memory that the columns take beyond the buffers. Both read buffers of 8 MiB
with a call and a kernel in turns; the walk reads the correlation number of each record and nothing else.
"""

from __future__ import annotations

import argparse
import ctypes
import resource
import struct
from collections.abc import Iterator
from time import perf_counter

import numpy as np

from pytest_opprof.frameworks.nvidia.live import cupti, libcupti
from pytest_opprof.frameworks.nvidia.live.cupti_records import KERNEL, RUNTIME, Buffer, Decoder

BUFFER_BYTES = 8 << 20
KERNEL_BYTES = 216
"""In CUDA 13.0."""
CORRELATION = {KERNEL: 92, RUNTIME: 32}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    library = libcupti.opened()
    buffers = list(made(arguments.records))
    before = peak_mb()
    ours = min(timed(library, buffers) for _ in range(arguments.rounds))
    memory = peak_mb() - before
    walk = min(walked(library, buffers[:1]) for _ in range(arguments.rounds))
    print(f"{library.path}, {arguments.records} records")
    print(f"opprof {ours * 1e6 / arguments.records:.2f} us a record, {ours:.2f} s, {memory:.0f} MB beyond the buffers")
    per_record = walk / (len(buffers[0]) // (40 + KERNEL_BYTES) * 2)
    print(
        f"the library's own walk {per_record * 1e6:.2f} us a record, {per_record * arguments.records / ours:.1f} times"
    )


def made(records: int) -> Iterator[Buffer]:
    call, kernel = bytearray(40), bytearray(KERNEL_BYTES)
    struct.pack_into("=iIQQIIII", call, 0, RUNTIME, 1, 10, 20, 1, 1, 1, 0)
    struct.pack_into("=i", kernel, 0, KERNEL)
    struct.pack_into("=QQ", kernel, 16, 30, 40)
    struct.pack_into("=I", kernel, 92, 1)
    pair = bytes(call + kernel)
    while records > 0:
        pairs = min(BUFFER_BYTES // len(pair), (records + 1) // 2)
        yield np.frombuffer(pair * pairs, np.uint8)
        records -= 2 * pairs


def timed(library: cupti.Cupti, buffers: list[Buffer]) -> float:
    decoder = Decoder(library._follow)
    begin = perf_counter()
    decoder.decode(buffers)
    return perf_counter() - begin


def walked(library: cupti.Cupti, buffers: list[Buffer]) -> float:
    begin = perf_counter()
    for buffer in buffers:
        at, address = 0, buffer.ctypes.data
        while at < len(buffer):
            kind = ctypes.c_int32.from_address(address + at).value
            ctypes.c_uint32.from_address(address + at + CORRELATION[kind])
            at = library._follow(buffer, at) or len(buffer)
    return perf_counter() - begin


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
