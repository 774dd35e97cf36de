"""The README and the pages of the documentation, and what they tell readers to do."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (\w+\.py)\n")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def steps(page: Path) -> list[tuple[str, str]]:
    """Return what a reader of *page* does, in order: files with their content, and commands after ``$``."""
    found = []
    for kind, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "console":
            found += [("$", line[2:]) for line in block.splitlines() if line.startswith("$ ")]
        elif match := _FILE.match(block):
            found.append((match[1], block))
    return found
