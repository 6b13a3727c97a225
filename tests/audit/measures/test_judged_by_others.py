"""Language, autocomplete, next queries, head, topics, shape and clicks: exact on toys and against slow twins."""

from datetime import datetime, timedelta
from functools import cache
from math import log2

import numpy as np
import polars as pl
import pytest

from queryveil.audit.context import AuditContext
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.searches import FINE, Searches, classes, other_word, vocabulary
from queryveil.audit.held_out.word_model import PUBLIC_OTHER, TEMPER, WordCounts
from queryveil.audit.measures.autocomplete import Autocomplete, Candidates, reciprocal_ranks
from queryveil.audit.measures.head import HeadQueries
from queryveil.audit.measures.hosts import LEAN, HostsClicked
from queryveil.audit.measures.language import Language
from queryveil.audit.measures.language_strata import LanguageStrata
from queryveil.audit.measures.next_query import Added, NextQuery
from queryveil.audit.measures.shape import WORDS_IN_A_QUERY, Shape, falling
from queryveil.audit.measures.topics import Topics, public_topics, topics
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth

START = datetime(2026, 3, 1, 10, 0, 5)


def asked(texts, people=12, who="u", gap=1, **columns):
    """Everybody asks the same texts, a minute apart."""
    rows = [(f"{who}{n}", text, START + timedelta(minutes=gap * i)) for n in range(people) for i, text in
            enumerate(texts)]  # fmt: skip
    more = {name: [value[i] for _ in range(people) for i in range(len(texts))] for name, value in columns.items()}
    return QueryLog(QueryLog.of(rows).frame.with_columns(**{name: pl.Series(v) for name, v in more.items()}))


def judged(measure, raw, release, judges):
    """What a measure says, by key; reasons by title."""
    context = AuditContext(original=raw, released=release, manifest={}, secrets=None, held_out=judges)
    found = list(measure.judged(context))
    return {item.title if isinstance(item, LeftOut) else item.key: getattr(item, "judgement", item) for item in found}


# --- language


@cache
def public(before, word):
    """P(word | before) by public words and by public pairs: a slow twin that looks the counts up one by one."""
    prior = vocabulary()
    number = prior.number(word)
    powers = prior.counts.astype(float) ** TEMPER
    share = PUBLIC_OTHER if number < 0 else float(powers[number] / powers.sum()) * (1 - PUBLIC_OTHER)
    first = len(prior) if before is None else prior.number(before)
    listed = np.flatnonzero(prior.pair_first == first) if first >= 0 else []
    if not len(listed):
        return share, share
    weights = prior.pair_counts[listed].astype(float) ** TEMPER
    there = prior.pair_second[listed] == number
    return share, float(weights[there].sum() / weights.sum())


def by_log(texts, before, word):
    """The same by the counts of a log's texts, each of a person once."""
    pairs = [pair for text in texts for pair in zip([None, *text.split()], text.split(), strict=False)]
    share = sum(second == word for _, second in pairs) / len(pairs)
    following = [second for first, second in pairs if first == before]
    return share, (following.count(word) / len(following) if following else share)


def cross_fitted_bits(parts, half):
    """Bits per word with weights from the other half, by plain loops of expectation maximisation."""
    total = 0.0
    for side in (0, 1):
        others = [row for row, h in zip(parts, half, strict=True) if h != side]
        weights = [1 / len(parts[0])] * len(parts[0])
        for _ in range(40):
            given = []
            for row in others:
                mass = sum(w * p for w, p in zip(weights, row, strict=True))
                given.append([w * p / mass for w, p in zip(weights, row, strict=True)])
            weights = [sum(column) / len(given) for column in zip(*given, strict=True)]
        mine = [row for row, h in zip(parts, half, strict=True) if h == side]
        total -= sum(log2(sum(w * p for w, p in zip(weights, row, strict=True))) for row in mine)
    return total / len(parts)


def test_bits_per_word_are_those_of_a_slow_twin():
    texts = ["cheap flights", "new york weather", "weather", "cheap hotels new york"]
    raw = QueryLog.of([(f"u{n}", text) for n in range(5) for text in (texts if n % 2 else texts[:2])])
    mine = [["cheap flights", "weather york"], ["new york", "cheap weather"]] * 6
    judges = QueryLog.of([(f"v{n:02}", text) for n, said in enumerate(mine) for text in said])
    found = judged(Language(), raw, raw, judges)["language"]
    everything = [text for n in range(5) for text in (texts if n % 2 else texts[:2])]
    steps = [(n % 2, *pair) for n, said in enumerate(mine) for text in said for pair in
             zip([None, *text.split()], text.split(), strict=False)]  # fmt: skip
    half = [h for h, _, _ in steps]
    floor = [public(before, word) for _, before, word in steps]
    ceiling = [(*public(before, word), *by_log(everything, before, word)) for _, before, word in steps]
    assert found.floor == pytest.approx(cross_fitted_bits(floor, half))
    assert found.ceiling == pytest.approx(cross_fitted_bits(ceiling, half))
    assert found.value == 1


def test_who_asks_what_everybody_asks_costs_no_bits():
    everybody, others = asked(["new york"]), asked(["new york"], who="v")
    found = judged(Language(), everybody, asked(["xqzzyk"]), others)["language"]
    assert found.ceiling == pytest.approx(0, abs=1e-6) and found.floor > 5
    assert found.value == pytest.approx(0, abs=0.01)  # a release of words that nobody uses gets no weight


def test_a_texts_repetition_by_one_person_tells_no_more():
    raw = asked(["new york", "weather"])
    habit = QueryLog(pl.concat([raw.frame, *[raw.frame.head(1)] * 500]))
    others = asked(["new york", "weather"], who="v")
    assert judged(Language(), raw, habit, others)["language"].value == 1


def test_frequent_and_rare_queries_are_judged_apart():
    frequent = QueryLog.of([(f"u{n:02}", "new york") for n in range(12)])
    raw = QueryLog(pl.concat([frequent.frame, QueryLog.of([("u00", "tulip bulbs")]).frame]))
    others = QueryLog.of([(f"v{n:02}", text) for n in range(12) for text in ("new york", "tulip bulbs", "Tulip")])
    found = judged(LanguageStrata(), raw, frequent, others)
    head, tail, all_ = (
        found["language-head"],
        found["language-tail"],
        judged(Language(), raw, frequent, others)["language"],
    )
    for reader in ("floor", "release", "ceiling"):  # two words of each judge are of the head and three of the tail
        both = 2 * getattr(head, reader) + 3 * getattr(tail, reader)
        assert both / 5 == pytest.approx(getattr(all_, reader))
    assert head.value > 0.8 and tail.value < 0.2  # the release holds the head alone
    assert judged(LanguageStrata(), raw, raw, others)["language-tail"].value == 1
    few = asked(["new york"], who="v")
    assert "language-tail" not in judged(LanguageStrata(), raw, raw, few)


# --- autocomplete


def test_the_rank_of_a_word_is_that_among_all_words_that_begin_alike():
    log = Searches(synth(users=20, records=300, seed=3))
    sources = WordCounts.public(), WordCounts.of(log)
    known = np.flatnonzero(log.words.word < other_word())[:8]
    before, word = log.words.before[known], log.words.word[known]
    weights = np.tile([0.3, 0.2, 0.2, 0.3], (len(word), 1))
    words = vocabulary().words.to_list()
    expected = []
    for first, meant in zip(before, word, strict=True):
        tried = np.array([n for n in range(len(words)) if words[n][:2] == words[meant][:2]])
        parts = [source.estimates(np.full(len(tried), first), tried) for source in sources]
        likely = (np.concatenate(parts, axis=1) * weights[0]).sum(axis=1)
        rank = tried[np.argsort(-likely, kind="stable")].tolist().index(meant) + 1
        expected.append(1 / rank if rank <= 10 else 0.0)
    found = reciprocal_ranks(sources, weights, Candidates.of(log.words.word), before, word)
    assert found.tolist() == expected and len(set(expected)) > 1


def test_a_raw_log_of_one_text_completes_it_at_once():
    found = judged(
        Autocomplete(), asked(["quizzical walrus"]), asked(["weather"]), asked(["quizzical walrus"], who="v")
    )
    assert found["autocomplete"].ceiling == 1 and found["autocomplete"].value == pytest.approx(0)


# --- what people ask next


def test_a_release_without_sessions_teaches_less_of_what_comes_next():
    """Everybody goes from one class to a far one; shuffled among people the same texts no longer tell it."""
    pairs = [("paris", "guitar"), ("diabetes", "toyota"), ("football", "lasagna"), ("mozart", "python")]
    raw = QueryLog(pl.concat([asked(pair, who=f"{pair[0]} ").frame for pair in pairs]))
    others = QueryLog(pl.concat([asked(pair, who=f"v {pair[0]} ").frame for pair in pairs]))
    shuffled = QueryLog.of([(f"x{n}", text) for n in range(12) for pair in pairs for text in pair][:48])
    single = QueryLog(shuffled.frame.with_columns(user=pl.int_range(pl.len()).cast(pl.String)))
    found, lost = (judged(NextQuery(), raw, log, others) for log in (raw, single))
    for key in ("next-words", "next-class"):
        assert found[key].value == 1 and lost[key].value < 0.9, key
    assert found["next-class"].ceiling == pytest.approx(1) and found["next-words"].ceiling == pytest.approx(0, abs=0.05)


def test_only_words_that_the_text_before_has_not_are_added():
    searches = Searches(asked(["new york", "york weather weather", "xqzzyk", "!!", "paris"], people=1))
    added = Added(searches)
    words = vocabulary().words
    assert [words[int(word)] for word in added.word] == ["weather"]  # xqzzyk is unknown, !! has no words
    assert [searches.names[int(text)] for text in added.text] == ["new york"]
    assert [words[int(word)] for word in added.last] == ["york"]
    assert added.topic.tolist() == [classes(FINE)[vocabulary().number("york")]]


# --- head


def test_recall_and_distance_of_the_head_by_hand():
    texts = [f"text number {n}" for n in range(10)]
    others = asked(texts, who="v")
    half = asked(texts[:5])
    with_noise = asked([*texts[:5], *(f"other {n}" for n in range(5))])
    found = judged(HeadQueries(), asked(texts), half, others)
    assert (found["head-recall"].floor, found["head-recall"].release) == (0, 0.5)
    assert found["head-distance"].floor == pytest.approx(1) and found["head-distance"].ceiling == pytest.approx(0)
    assert found["head-distance"].release == pytest.approx(0.5)  # ½ (5 · |1/5 − 1/10| + 5 · |0 − 1/10|)
    mixed = judged(HeadQueries(), asked(texts), with_noise, others)
    assert mixed["head-distance"].release == pytest.approx(0.5)  # ½ (0 + 5 · 1/10 + |1/2 − 0|)


def test_texts_of_single_people_are_no_head():
    others = QueryLog.of([(f"v{n}", f"text number {n}") for n in range(30)])
    found = judged(HeadQueries(), others, others, others)
    assert all(isinstance(item, LeftOut) for item in found.values()) and len(found) == 2


# --- topics


def test_topics_are_shares_of_classes_of_words():
    paris, guitar = (classes(FINE)[vocabulary().number(word)] for word in ("paris", "guitar"))
    shares = topics(Searches(QueryLog.of([("u", "paris guitar"), ("v", "paris"), ("v", "Paris ")])))
    assert shares[paris] == pytest.approx(2 / 3) and shares[guitar] == pytest.approx(1 / 3)
    found = judged(Topics(), asked(["paris"]), asked(["guitar"]), asked(["paris"], who="v"))["topics-others"]
    assert (found.ceiling, found.release) == (0, 1)
    assert found.floor == pytest.approx(1 - public_topics()[paris])
    nothing = QueryLog(asked(["paris"]).frame.clear())
    assert judged(Topics(), asked(["paris"]), nothing, asked(["paris"], who="v"))["topics-others"].value == 0


# --- shape


def test_lengths_sessions_and_hours_by_hand():
    raw, others = asked(["new york", "a b c", "x y z"]), asked(["new york", "a b c", "x y z"], who="v")
    release = asked(["weather", "new york"], gap=90)
    found = judged(Shape(), raw, release, others)
    lengths = found["shape-lengths"]
    guess = falling(WORDS_IN_A_QUERY)
    mine = np.array([0, 1 / 3, 2 / 3, *[0] * 7])
    assert lengths.floor == pytest.approx(np.abs(mine - guess).sum() / 2)
    assert lengths.release == pytest.approx(2 / 3)  # ½ (1/2 + 1/6 + 2/3)
    assert found["shape-sessions"].release == 1 and found["shape-sessions"].ceiling == 0  # of one, and of three
    assert found["shape-hours"].release == pytest.approx(0.5) and found["shape-hours"].floor == pytest.approx(23 / 24)
    assert guess.sum() == pytest.approx(1)


def test_hours_are_left_out_where_days_are_all_that_is_told():
    raw, others = asked(["paris"]), asked(["paris"], who="v")
    days = QueryLog(raw.frame.with_columns(pl.col("time").dt.truncate("1d")))
    assert isinstance(judged(Shape(), raw, days, others)["Hours at which other people search"], LeftOut)


# --- clicks


def test_hosts_by_class_by_hand():
    sites = ["http://paris.example", "http://guitar.example"]
    raw, others = (asked(["paris", "guitar"], who=who, url=sites) for who in "uv")
    turned = asked(["paris", "guitar"], url=sites[::-1])
    found = judged(HostsClicked(), raw, turned, others)["hosts"]
    assert found.floor == 1
    leaning = 0.5 * LEAN / (12 + LEAN)  # 12 clicks in each class, and the shares of both
    assert found.ceiling == pytest.approx(leaning) and found.release == pytest.approx(1 - leaning)
    assert isinstance(judged(HostsClicked(), raw, asked(["paris"]), others)["Hosts that other people click"], LeftOut)
