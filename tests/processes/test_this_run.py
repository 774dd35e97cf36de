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
