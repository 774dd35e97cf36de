"""The script of opprof-comment.yml, run with a `gh` that notes its calls and answers from a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from .pages import text

pytestmark = pytest.mark.processes
GH = """\
#!{python}
import json, os, sys
words = sys.argv[1:]
body = next((open(word.partition("@")[2]).read() for word in words if word.startswith("body=@")), None)
with open("calls", "a") as calls:
    print(json.dumps([words, body]), file=calls)
path = next(word for word in words if word.startswith("repos/"))
answers = json.load(open("answers"))
for answer in answers.get(path, []) if "--silent" not in words else []:
    print(answer)
"""
PULLS, ARTIFACTS = "repos/a/b/pulls", "repos/a/b/actions/runs/9/artifacts"


def written(folder: Path, conclusion: str, comments: list[int]) -> list[tuple[str, str, str]]:
    """Return what the script writes: method, path and body."""
    script = text(".github/workflows/opprof-comment.yml").rpartition("run: |\n")[2]
    gh = folder / "gh"
    gh.write_text(GH.format(python=sys.executable), encoding="utf-8")
    gh.chmod(0o755)
    (folder / "summary.md").write_text("## opprof: 2 of 9 tests exceed\n", encoding="utf-8")
    answers = {PULLS: [4], ARTIFACTS: [77], "repos/a/b/issues/4/comments": comments}
    (folder / "answers").write_text(json.dumps(answers), encoding="utf-8")
    (folder / "calls").unlink(missing_ok=True)
    given = {"CONCLUSION": conclusion, "HEAD": "me:branch", "RUN": "9", "SHA": "c0ffee", "RUNNER_TEMP": "."}
    given |= {"GITHUB_REPOSITORY": "a/b", "GITHUB_SERVER_URL": "https://github.test"}
    path = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "-e", "-c", textwrap.dedent(script)], cwd=folder, env={**given, **path}, check=True)
    calls: list[Any] = [json.loads(line) for line in (folder / "calls").read_text().splitlines()]
    return [(words[words.index("--method") + 1], words[3], body) for words, body in calls if body is not None]


def test_a_failing_run_comments_once_with_a_link_to_its_report(tmp_path: Path) -> None:
    ((method, path, body),) = written(tmp_path, "failure", [])
    assert (method, path) == ("POST", "repos/a/b/issues/4/comments")
    assert body == (
        "<!-- pytest-opprof -->\n## opprof: 2 of 9 tests exceed\n\n"
        "[Report of this run](https://github.test/a/b/actions/runs/9/artifacts/77)\n"
    )
    ((method, path, again),) = written(tmp_path, "failure", [501, 502])
    assert (method, path, again) == ("PATCH", "repos/a/b/issues/comments/501", body)


def test_a_green_run_says_that_it_is_fixed_and_nothing_where_it_never_failed(tmp_path: Path) -> None:
    ((method, path, body),) = written(tmp_path, "success", [501])
    assert (method, path) == ("PATCH", "repos/a/b/issues/comments/501")
    assert body.startswith("<!-- pytest-opprof -->\n## opprof: fixed\n\nAt c0ffee no test exceeds")
    assert "/actions/runs/9/artifacts/77" in body
    assert written(tmp_path, "success", []) == []


def test_only_a_comment_with_the_marker_is_taken_for_ours(tmp_path: Path) -> None:
    written(tmp_path, "failure", [])
    asked = [words for words, _ in map(json.loads, (tmp_path / "calls").read_text().splitlines())]
    (query,) = [words[-1] for words in asked if words[2].endswith("/comments") and "--paginate" in words]
    assert 'select(.user.login == "github-actions[bot]" and (.body | startswith(env.MARKER)))' in " ".join(
        query.split()
    )
