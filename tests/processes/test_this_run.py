from __future__ import annotations

import pytest

from pytest_opprof.processes.this_run import command


def test_a_process_writes_where_it_does_no_harm(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig("-q", "--junit-xml=report.xml", "-p", "cacheprovider")
    words = command(config, "/there")
    assert words[3:6] == ["-q", "--junit-xml=report.xml", "-p"]
    assert {"--basetemp=/there/tmp", "cache_dir=/there/cache", "--junit-xml=/there/xmlpath"} <= {*words}


def test_without_a_cache_none_is_moved(pytester: pytest.Pytester) -> None:
    # pytest would know no option of this name, which --strict-config makes an error.
    assert "cache_dir=/there/cache" not in command(pytester.parseconfig("-p", "no:cacheprovider"), "/there")


SEEDING = """
import pytest
def pytest_addoption(parser): parser.addoption("--randomly-seed", default="default")
"""


@pytest.mark.parametrize(
    ("arguments", "ini", "given"),
    [
        ([], "", ["--randomly-seed=3"]),
        (["--randomly-seed=7"], "", []),
        ([], "addopts = --randomly-seed=7", []),
    ],
)
def test_pytest_randomly_gets_a_seed_unless_the_user_chose_one(
    pytester: pytest.Pytester, arguments: list[str], ini: str, given: list[str]
) -> None:
    pytester.makepyfile(seeding=SEEDING)
    pytester.makeini(f"[pytest]\n{ini}")
    pytester.syspathinsert()
    config = pytester.parseconfig("-p", "seeding", *arguments)
    assert [word for word in command(config, "/there", 3) if word not in arguments and "seed=" in word] == given
    assert "--randomly-seed=3" not in command(config, "/there")
