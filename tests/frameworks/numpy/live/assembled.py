"""Assembles the machine code of the NumPy backend; `python -m tests.frameworks.numpy.live.assembled` writes them.

Needs an assembler for each: those of Debian are in binutils-x86-64-linux-gnu and binutils-aarch64-linux-gnu.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
import textwrap
from pathlib import Path

from pytest_opprof.frameworks.numpy.live import machine_code

FOLDER = Path(machine_code.__file__).parent
ASSEMBLERS = {"x86_64": "x86_64-linux-gnu-as", "arm64": "aarch64-linux-gnu-as"}
STUBS = {
    "x86_64": '''
def stub(block: int, routine: int) -> bytes:
    """Return the code that jumps to a *routine* with the address of its *block* in r10."""
    # endbr64; mov r10, block; mov r11, routine; jmp r11
    numbers = [number.to_bytes(8, "little") for number in (block, routine)]
    return b"\\xf3\\x0f\\x1e\\xfa\\x49\\xba" + numbers[0] + b"\\x49\\xbb" + numbers[1] + b"\\x41\\xff\\xe3"
''',
    "arm64": '''
def stub(block: int, routine: int) -> bytes:
    """Return the code that jumps to a *routine* with the address of its *block* in x16."""
    # bti jc; ldr x16, block; ldr x17, routine; br x17
    code = (0xD50324DF, 0x58000070, 0x58000091, 0xD61F0220)
    numbers = [number.to_bytes(8, "little") for number in (block, routine)]
    return b"".join(each.to_bytes(4, "little") for each in code) + b"".join(numbers)
''',
}


def module(architecture: str) -> str:
    """Return the text of the module of an *architecture*."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "made.o")
        subprocess.run([ASSEMBLERS[architecture], FOLDER / f"{architecture}.s", "-o", made], check=True)
        code, routines = _read(made.read_bytes())
    names = ", ".join(f'"{name}": {at}' for name, at in sorted(routines.items(), key=lambda each: each[1]))
    told = textwrap.wrap(names, 110)
    lines = [f'    "{code.hex()[at : at + 104]}"' for at in range(0, 2 * len(code), 104)]
    return "\n".join(
        [
            f'"""`{architecture}.s`, assembled: `python -m tests.frameworks.numpy.live.assembled` writes this file."""',
            "\n# fmt: off",
            "ROUTINES = {",
            *[f"    {line}" for line in told],
            "}",
            '"""Where in the code each routine begins."""',
            "CODE = bytes.fromhex(",
            *lines,
            ")",
            "# fmt: on",
            "",
            STUBS[architecture],
        ]
    )


def _read(file: bytes) -> tuple[bytes, dict[str, int]]:
    """Return the code of an ELF object, and where its global symbols are."""
    offset, size, count = (struct.unpack_from("<Q", file, 40)[0], *struct.unpack_from("<HH", file, 58))
    sections = [struct.unpack_from("<IIQQQQIIQQ", file, offset + size * number) for number in range(count)]
    code, symbols = b"", {}
    for _, kind, flags, _, at, length, link, *_ in sections:
        if kind == 1 and flags & 4:
            code = file[at : at + length]
        if kind == 2:
            texts = file[sections[link][4] :]
            for place in range(at, at + length, 24):
                name, info, _, _, value, _ = struct.unpack_from("<IBBHQQ", file, place)
                if info >> 4 == 1:
                    symbols[texts[name : texts.index(b"\0", name)].decode()] = value
    return code, {name: value for name, value in symbols.items() if name != "finish"}


if __name__ == "__main__":
    for each in ASSEMBLERS:
        (FOLDER / f"{each}.py").write_text(module(each), encoding="utf-8")
