"""Which functions are called more often than before."""

from pytest_opprof.python_calls.growth import Before, grown


def test_a_function_that_grew_by_ten_calls_or_one_percent_is_none():
    assert grown(Before({"f": 1000, "g": 5}), {"f": 1010, "g": 15, "h": 11}) == {"h": 11}
    assert grown(Before({"f": 10_000}), {"f": 10_100, "g": 11}) == {"g": 11}


def test_where_each_function_grew_a_little_all_are_told():
    assert grown(Before({"f": 1, "g": 2}), {"f": 6, "g": 10}) == {"f": 5, "g": 8}
