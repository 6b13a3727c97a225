"""Sensitive topics are kept out, by name, and a typo is refused."""

import pytest

from queryveil.errors import UsageError
from queryveil.log import QueryLog
from queryveil.release.blocklist import Blocklist


@pytest.fixture
def block(tmp_path):
    def block(text: str):
        path = tmp_path / "blocked.txt"
        path.write_text(text, encoding="utf-8-sig")
        return path

    return block


LOG = QueryLog.of([("a", "tennis racket"), ("a", "flu"), ("b", "golden retriever"), ("c", "xqzzt")])


def test_queries_under_a_named_category_are_left_out(block):
    kept = Blocklist.load(block("# pets\nanimal\n\n")).without(LOG)
    assert "golden retriever" not in kept.queries()
    assert {"tennis racket", "flu", "xqzzt"} <= set(kept.queries())


@pytest.mark.parametrize(
    "text",
    [
        "cancer treatment",
        "hiv clinic",
        "depression medication",
        "diabetes diet",
        "breast cancer hospital",
        "canc\u200ber",
        "cancer2024",
    ],
)
def test_a_query_that_only_mentions_a_named_category_is_left_out_too(block, text):
    log = QueryLog.of([("a", text), ("b", "guitar")])
    assert Blocklist.load(block("state\n")).without(log).queries() == ["guitar"]


def test_a_deeper_category_leaves_the_rest_of_its_parent_in(block):
    log = QueryLog.of([("a", "puppy"), ("b", "salmon")])
    assert set(Blocklist.load(block("animal / young")).without(log).queries()) == {"salmon"}


def test_nothing_named_keeps_everything(block):
    assert Blocklist.load(block("# nothing\n")).without(LOG) == LOG


def test_a_category_that_does_not_exist_is_refused_by_line(block):
    with pytest.raises(UsageError, match="line 2: there is no such category"):
        Blocklist.load(block("animal\nanimol\n")).without(LOG)


def test_an_unreadable_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="one category a line"):
        Blocklist.load(tmp_path / "missing.txt")
