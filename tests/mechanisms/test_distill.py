"""distill from log to folder: everything is computed from the noisy tables, the promise, the model, the audit."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from mechanisms.distill_toys import log_of
from queryveil import verify
from queryveil.audit.attacks import one_run
from queryveil.distill import Model
from queryveil.errors import DataError, ParameterError, VerificationError
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms.distill import Distill, estimation, language, published, shape, synthesis, tables
from queryveil.mechanisms.distill.budget import LENGTHS, MOST_KEYS, REGIMES, SHARES, UNIT, Budget
from queryveil.mechanisms.distill.contributions import classes_of_words
from queryveil.mechanisms.distill.distillation import LARGEST_DELTA, LEAST_EPSILON
from queryveil.mechanisms.distill.known_queries import KNOWN_WORDS
from queryveil.mechanisms.distill.texts import Texts, vocabulary
from queryveil.privacy import Noise
from queryveil.privacy.joint_gaussian import LEAST_SIGMA
from queryveil.privacy.noise import LARGEST_SIGMA
from queryveil.release import manifest
from queryveil.testing import check_mechanism


@pytest.fixture(scope="module")
def many():
    """600 people who share a few queries, with times and clicks."""
    return synth(users=600, records=20_000, seed=4)


@pytest.fixture(scope="module")
def noisy(many):
    return tables.collect(many.table(), Noise.seeded(11), Budget(8.0, 1e-8))


@pytest.fixture(scope="module")
def model(noisy):
    return Model(noisy)


def test_it_conforms():
    check_mechanism(Distill(epsilon=4.0, users=30), batch=False)  # the order of rows has an exact test below


def test_the_order_of_the_rows_changes_nothing_at_all(many):
    mechanism = Distill(epsilon=4.0, users=30)
    one, other = (mechanism.protect(log, Noise.seeded(3)) for log in (many, QueryLog(many.frame.reverse())))
    assert one.log == other.log and all(one.tables[name].equals(other.tables[name]) for name in one.tables)


def test_the_promise_needs_no_data_and_says_that_nobody_is_behind_a_user():
    promise = Distill(epsilon=4.0, delta=1e-8).guarantee()
    assert (promise.epsilon, promise.delta, promise.unit, promise.evidence) == (4.0, 1e-8, "user", "proved")
    assert "Nobody is behind a synthetic user" in promise.statement()
    assert Distill(epsilon=4.0).charge().scope == "dataset"


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0.0}, {"epsilon": 0.05}, {"epsilon": float("nan")}, {"delta": 1e-3}, {"users": 0}]
)
def test_parameters_without_meaning_are_refused(wrong):
    with pytest.raises(ParameterError):
        Distill(**wrong)


@pytest.mark.parametrize("epsilon", [LEAST_EPSILON, 50.0])
@pytest.mark.parametrize("delta", [1e-15, LARGEST_DELTA])
def test_the_noise_of_every_allowed_setting_can_be_drawn(epsilon, delta):
    """What the sampler refuses would be refused after the ledger was debited."""
    sigmas = Distill(epsilon=epsilon, delta=delta).budget.sigmas
    assert max(sigmas.values()) <= LARGEST_SIGMA and min(sigmas.values()) >= LEAST_SIGMA
    assert Distill(epsilon=epsilon, delta=delta).rho > 0


def test_delta_is_shared_between_the_noise_and_the_thresholds():
    budget = Budget(2.0, 1e-6)
    looser = dataclasses.replace(budget, delta=1e-5)
    assert all(looser.thresholds[name] < budget.thresholds[name] for name in MOST_KEYS)
    assert all(looser.sigmas[name] < budget.sigmas[name] for name in SHARES)


# Everything but the noisy tables is post-processing


def check_only_tables_matter(protect, monkeypatch):
    """With the noisy tables given, the release is the same whatever the log was."""
    one = log_of([[("cheap flights", None, None, None, None)]] * 3)
    other = log_of([[("throat cancer", None, 1, "a.example", None)]] * 9)
    fixed = tables.collect(one.table(), Noise.seeded(1), Budget(4.0, 1e-8))
    monkeypatch.setattr(tables, "collect", lambda table, noise, budget: fixed)
    first, second = (protect(log, Noise.seeded(2)) for log in (one, other))
    assert first.log == second.log
    assert all(first.tables[name].equals(second.tables[name]) for name in first.tables)


@pytest.mark.parametrize("users", [None, 7])
def test_the_release_depends_on_the_log_by_its_noisy_tables_only(monkeypatch, users):
    check_only_tables_matter(Distill(epsilon=4.0, users=users).protect, monkeypatch)


def test_a_number_of_users_taken_from_the_log_is_caught(monkeypatch):
    def protect(log, noise):
        return Distill(epsilon=4.0, users=log.user_count()).protect(log, noise)

    with pytest.raises(AssertionError):
        check_only_tables_matter(protect, monkeypatch)


def test_mixture_weights_fitted_to_the_private_log_are_caught(monkeypatch):
    def protect(log, noise):
        words = log.frame["query"].str.split(" ").explode()
        fitted = (words == "cheap").mean()
        with monkeypatch.context() as patch:
            for part, sign in (("prior", 1), ("fine", -1)):
                moved = tuple(weight + 0.3 * sign * fitted for weight in language.MIXTURE[part])
                patch.setitem(language.MIXTURE, part, moved)
            return Distill(epsilon=4.0, users=40).protect(log, noise)

    with pytest.raises(AssertionError):
        check_only_tables_matter(protect, monkeypatch)


# Estimation


def test_probabilities_of_the_next_word_add_up_to_one(noisy):
    made = language.Language.of(noisy)
    every = np.arange(made.other + 1)
    for before in (0, vocabulary().number("new"), made.other, made.start):
        assert made.probability(np.full(len(every), before), every).sum() == pytest.approx(1.0)


def test_without_noise_raking_gives_common_words_the_shares_of_the_log(noisy):
    words = estimation.rake(dataclasses.replace(noisy, budget=_Quiet(8.0, 1e-8)))
    common = np.argsort(-noisy.cells["words"])[:20]
    ratio = words.raked[common] / noisy.cells["words"][common]
    assert np.abs(ratio / np.median(ratio) - 1).max() < 0.1


class _Quiet(Budget):
    @property
    def sigmas(self):
        return dict.fromkeys(SHARES, 1e-9)


def test_with_overwhelming_noise_the_prior_stays(many):
    noisy = tables.collect(many.table(), Noise.seeded(3), Budget(0.05, 1e-8))
    words = estimation.rake(noisy)
    assert 0.5 * np.abs(words.raked - words.prior).sum() < 0.2


def test_words_that_people_use_become_likelier(noisy, many):
    words = estimation.rake(noisy)
    used = many.frame["query"].str.split(" ").explode().value_counts(sort=True)["query"].head(12).to_list()
    numbers = [n for n in map(vocabulary().number, used) if n >= 0]
    assert np.median(words.raked[numbers] / words.prior[numbers]) > 3


def test_what_the_kernel_draws_follows_the_probabilities(noisy):
    """First words of 300,000 queries; χ² over the 30 likeliest classes, p > 1e-4; a shift of 6 % of a class of a tenth
    is caught."""
    from scipy.stats import chisquare

    made = synthesis.Synthesis.of(noisy)
    drawn = made.compose(np.ones(300_000, np.int64), Noise.seeded(5).stream("x"))[:, 0]
    drawn = drawn[drawn < made.language.other]
    every = np.arange(made.language.other)
    expected = made.language.probability(np.full(len(every), made.language.start), every)
    topics = classes_of_words()[0]
    counts = np.bincount(topics[drawn], minlength=66)[:65]
    # The public pairs and published ones never end in a word outside the vocabulary; the other parts leave it out.
    parts = made.language.parts(np.full(len(every), made.language.start), every)
    weights = np.array(list(made.language.mixture.values()))
    shown = made.language.published_pairs
    start = np.full(len(every), made.language.start)
    exact = (parts / parts.sum(axis=0)) @ weights * (1 - shown.weight[start]) + shown.weight[start] * shown.probability(
        start, every
    )
    shares = np.bincount(topics[every], exact, minlength=66)[:65]
    best = np.argsort(-shares)[:30]
    assert np.abs(expected.sum() - 1) < 0.2
    wanted = shares[best] / shares[best].sum() * counts[best].sum()
    assert chisquare(counts[best], wanted).pvalue > 1e-4
    assert (
        chisquare(
            np.append(counts[best][0] * 0.94, counts[best][1:]),
            wanted * (np.append(counts[best][0] * 0.94, counts[best][1:]).sum() / wanted.sum()),
        ).pvalue
        < 1e-4
    )


def test_dealing_gives_every_place_one_query_of_its_topic_while_there_are_any():
    rng = np.random.default_rng(1)
    wanted, topic = rng.integers(0, 5, 1000), rng.integers(0, 5, 1000)
    dealt = synthesis.deal(wanted, topic, 5, Noise.seeded(1).stream("x"))
    assert sorted(dealt) == list(range(1000))
    possible = np.minimum(np.bincount(wanted, minlength=5), np.bincount(topic, minlength=5)).sum()
    assert (topic[dealt] == wanted).sum() >= possible


# The folder and the model


def test_a_model_comes_from_a_verified_folder_and_says_what_the_release_says(many, tmp_path):
    release = Distill(epsilon=8.0, users=60).protect(many, Noise.seeded(6))
    folder = release.write(tmp_path / "release")
    checked = verify(folder)
    assert set(checked.manifest["tables"]) == {f"{name}.parquet" for name in release.tables}
    model = Model.load(folder)
    assert published.load(folder).cells["words"].tolist() == release.tables["words"]["weight"].to_list()
    assert model.probability("new york") > model.probability("new qzxqzxq") > 0
    (folder / "tables" / "words.parquet").write_bytes((folder / "tables" / "topics_64.parquet").read_bytes())
    with pytest.raises(VerificationError, match="tables"):
        Model.load(folder)


@pytest.mark.parametrize("change", ["added", "removed", "link"])
def test_a_folder_whose_tables_were_tampered_with_is_refused(tmp_path, change):
    release = Distill(epsilon=8.0, users=3).protect(QueryLog.of([("ann", "weather")]), Noise.seeded(6))
    folder = release.write(tmp_path / "release")
    if change == "added":
        (folder / "tables" / "more.parquet").write_bytes(b"x")
    elif change == "removed":
        (folder / "tables" / "head.parquet").unlink()
    else:
        (folder / "tables" / "head.parquet").rename(tmp_path / "head.parquet")
        (folder / "tables" / "head.parquet").symlink_to(tmp_path / "head.parquet")
    with pytest.raises(VerificationError):
        verify(folder)


def of_table(name, **columns):
    """A release with one of its tables changed."""
    return lambda release: dataclasses.replace(
        release, tables={**release.tables, name: release.tables[name].with_columns(**columns)}
    )


@pytest.mark.parametrize(
    "changed",
    [
        of_table("index", sigma=pl.col("sigma") * 2),
        of_table("index", share=pl.col("share").reverse()),
        of_table("words", sigma=pl.col("sigma") / 2),
        of_table("words", word=pl.col("word").reverse()),
        of_table("topics_64", value=pl.col("value") + 1),
        of_table("users", weight=pl.lit(1 << 62), value=pl.lit(float(1 << 46))),
        lambda release: dataclasses.replace(release, mechanism="suppress"),
        lambda release: dataclasses.replace(release, parameters={**release.parameters, "epsilon": 4.0}),
        lambda release: dataclasses.replace(release, parameters={**release.parameters, "epsilon": True}),
        lambda release: dataclasses.replace(release, parameters={**release.parameters, "delta": 0.9}),
    ],
)
def test_a_folder_that_says_other_than_its_tables_has_no_model_whoever_signed_it(tmp_path, changed):
    """As one of another version would: its noise and shares are others, and a model by this one's would be wrong."""
    release = Distill(epsilon=8.0, users=3).protect(QueryLog.of([("ann", "weather")]), Noise.seeded(6))
    folder = changed(release).write(tmp_path / "release")
    verify(folder)
    with pytest.raises(VerificationError, match="not as this version writes them"):
        Model.load(folder)


def test_a_report_is_added_to_a_release_with_tables(tmp_path):
    release = Distill(epsilon=8.0, users=3).protect(QueryLog.of([("ann", "weather")]), Noise.seeded(6))
    folder = release.write(tmp_path / "release")
    before = verify(folder).manifest["tables"]
    manifest.add_report(folder, "<p>what was found</p>")
    assert verify(folder).manifest["tables"] == before and Model.load(folder)


def test_error_bars_hold(many):
    """A 95 % interval of the published tables holds the true sum in 93 to 97 % of 3,000 cells (p < 1e-5 otherwise)."""
    from queryveil.mechanisms.distill import contributions
    from queryveil.mechanisms.distill.texts import Asked

    truth = contributions.sums(Asked.of(many.frame))["topics_3000"] / UNIT
    table = Distill(epsilon=2.0, users=1).protect(many, Noise.seeded(8)).tables["topics_3000"]
    inside = (table["value"] - pl.Series(truth)).abs() <= 1.96 * table["sigma"]
    assert 0.93 < inside.mean() < 0.97


def test_the_model_completes_suggests_and_samples(model):
    completed = model.complete("new yo")
    assert completed[0][0] == "new york" and all(text.startswith("new yo") for text, _ in completed)
    assert [chance for _, chance in completed] == sorted((c for _, c in completed), reverse=True)
    assert all(text.startswith("cheap ") or text for text, _ in model.next("cheap", 5))
    sample = model.sample(50, Noise.seeded(1))
    assert len(sample) == 50 and all(sample)
    assert sample == model.sample(50, Noise.seeded(1))
    with pytest.raises(DataError):
        model.probability("???")


def test_a_release_without_tables_has_no_model(tmp_path, many):
    from queryveil.mechanisms.suppress import Suppress

    folder = Suppress(k_text=2).protect(many, Noise.seeded(1)).write(tmp_path / "release")
    with pytest.raises(DataError, match="no tables"):
        Model.load(folder)


def test_texts_that_many_people_ask_are_published_and_others_are_not(tmp_path):
    people = [
        [("weather in new york", None, 1, "http://sky.example/a", None), (f"lone qzx{k}", None, None, None, None)]
        for k in range(400)
    ]
    release = Distill(epsilon=8.0, users=100).protect(log_of(people), Noise.seeded(4))
    assert release.tables["head"]["query"].to_list() == ["weather in new york"]
    assert release.tables["clicks"].rows(named=True)[0]["url"] == "http://sky.example/a"
    assert not release.log.frame["query"].str.contains("qzx").any()
    clicks = release.log.frame.filter(pl.col("url").is_not_null())
    assert set(clicks["url"]) <= {"http://sky.example/a", "sky.example"} and clicks.height > 0


def test_known_queries_that_many_ask_come_out_without_a_threshold():
    """Each of three queries by 200 of 1,200 people, beside a text of their own; what is not clearly asked keeps some of
    their shares, the more the fewer people there are."""
    asked = ["ebay", "mapquest.com", "new york"]
    words = vocabulary().words.to_list()[20_000:]
    people = [[(" ".join(words[3 * k : 3 * k + 3]), None, None, None, None)] for k in range(1200)]
    for place, text in enumerate(asked):
        for person in people[place * 300 : place * 300 + 200]:
            person.append((text, None, None, None, None))
    noisy = tables.collect(log_of(people).table(), Noise.seeded(2), Budget(4.0, 1e-8))
    assert not noisy.unions["head"].height
    model = Model(noisy)
    share = 200 / sum(map(len, people))
    for text in asked:
        assert share / 8 < model.probability(text) < 2 * share, text
        assert model.probability(text) > 1000 * model.probability("spokane" if " " not in text else "new jersey"), text
    drawn = pl.Series(model.sample(20_000, Noise.seeded(3))).str.replace(".", " ", literal=True)
    for text in asked:  # P(text) counts what is composed of its words, too
        assert np.isclose((drawn == text.replace(".", " ")).mean(), model.probability(text), atol=0.01), text


def test_a_text_that_composes_more_often_than_it_is_asked_is_drawn_as_rarely():
    """All of 3,000 people begin a query with "how to", half of them ask a public pair, and nobody "how to" alone."""
    words = vocabulary().words.to_list()[3_000:]
    people = [
        [(f"how to {words[k]}", None, None, None, None), (f"cheap {words[2 * k]}", None, None, None, None)]
        for k in range(3000)
    ]
    made = Model(tables.collect(log_of(people).table(), Noise.seeded(2), Budget(8.0, 1e-8)))
    language_of, head = made._synthesis.language, made._synthesis.head
    how, to = (vocabulary().number(word) for word in ("how", "to"))
    composed = head.lengths[1] * language_of.probability(np.array([language_of.start, how]), np.array([how, to])).prod()
    assert composed > 0.02
    drawn = pl.Series(made.sample(20_000, Noise.seeded(3)))
    assert (drawn == "how to").mean() < composed / 3 and made.probability("how to") < composed / 3
    assert drawn.str.starts_with("how to ").mean() > 0.05  # its beginnings stay


def test_a_word_that_is_only_part_of_queries_is_hardly_a_query_by_itself():
    """All of 3,000 people begin a query with an unlisted word, and with a rare one that has no cell, and ask another
    unlisted word alone, and one that nobody else asks. Two words that are published come out as often as asked."""
    words = vocabulary().words.to_list()
    rare = words[KNOWN_WORDS + 1]
    people = [
        [
            (text, None, None, None, None)
            for text in (f"qzxqzx {words[k]}", f"{rare} {words[k + 3000]}", f"vvkwq{k}", "vvkwq", "ebay")
        ]
        for k in range(3000)
    ]
    made = Model(tables.collect(log_of(people).table(), Noise.seeded(2), Budget(8.0, 1e-8)))
    assert "qzxqzx" in set(made._synthesis.tables.unions["own_words"]["key"])
    at_most = made._synthesis.head.unpublished
    drawn = pl.Series(made.sample(40_000, Noise.seeded(3)))
    for text in ("qzxqzx", rare):
        assert made.probability(text) < 1.01 * at_most < 0.005, text
        assert (drawn == text).mean() < 0.005, text
    assert drawn.str.starts_with(f"{rare} ").mean() > 0.02
    for text in ("vvkwq", "ebay"):  # one of them published, the other known, and each a fifth of all that is asked
        assert 0.12 < made.probability(text) < 0.28 and 0.12 < (drawn == text).mean() < 0.28, text


def test_a_published_query_is_composed_no_more():
    people = [[(text, None, None, None, None) for text in ("throat of cancer", "cheap paris")] for _ in range(900)]
    made = Model(tables.collect(log_of(people).table(), Noise.seeded(4), Budget(8.0, 1e-8)))
    head = made._synthesis.head
    place = head.texts.index_of("throat of cancer")
    assert made.probability("throat of cancer") == pytest.approx(head.often * head.shares[place])
    assert 0 < made.probability("throat of paris") < made.probability("throat of cancer")


def test_whole_queries_and_composed_ones_together_have_the_lengths_of_the_table():
    asked = ("weather in new york", "paris", "cheap flights to rome", "throat cancer")
    people = [[(text, None, None, None, None) for text in asked[: 2 + k % 3]] for k in range(900)]
    made = synthesis.Synthesis.of(tables.collect(log_of(people).table(), Noise.seeded(4), Budget(8.0, 1e-8)))
    head, lengths = made.head, made.shape.lengths
    whole = np.bincount(Texts.of(head.texts).lengths.clip(1, LENGTHS) - 1, head.shares, minlength=LENGTHS)
    before, after = (head.often * whole + (1 - head.often) * others for others in (lengths, head.lengths))
    assert head.often > 0.2 and np.abs(after - lengths).sum() < 0.5 * np.abs(before - lengths).sum()


def test_lengths_are_believed_as_far_as_the_noise_lets_them():
    """Usual lengths beside a tenth of them as noise: nearer to the truth than where τ is 1; other lengths are seen."""
    usual, rng = shape.USUAL["lengths"], np.random.default_rng(1)
    far = {1.0: 0.0, None: 0.0}
    for _ in range(50):
        seen = 300 * usual + rng.normal(0, 30, len(usual))
        for tau in far:
            believed = estimation.usually_off(seen, usual, sigma=30.0) if tau is None else tau
            far[tau] += np.abs(estimation.histogram(seen, usual, sigma=30.0, tau=believed) - usual).sum()
    assert far[None] < 0.7 * far[1.0]
    other = np.sqrt(usual) / np.sqrt(usual).sum()
    believed = estimation.usually_off(3000 * other, usual, sigma=30.0)
    found = estimation.histogram(3000 * other, usual, sigma=30.0, tau=believed)
    assert believed > 0.5 and np.abs(found - other).sum() < 0.7 * np.abs(usual - other).sum()


def test_weights_of_the_mixture_add_up_to_one_in_every_regime():
    for regime in range(REGIMES):
        assert sum(weights[regime] for weights in language.MIXTURE.values()) == pytest.approx(1)


def test_queries_of_one_word_have_shares_that_add_up_to_one(noisy):
    made = synthesis.Synthesis.of(noisy).head
    assert made.single.sum() == pytest.approx(1) and (made.single >= 0).all() and 0 <= made.often <= 0.9
    assert len(made.texts) == 0 or made.shares.sum() == pytest.approx(1)
    assert made.texts.is_unique().all()


def test_logs_of_nobody_and_odd_texts_are_survived():
    odd = [
        [("???", None, None, None, None)],
        [("ﬁne ＴＥＸＴ", None, None, None, None)],
        [("a" * 500, None, None, None, None)],
    ]
    for log in (QueryLog.empty(), log_of(odd)):
        assert Distill(epsilon=1.0, users=5).protect(log, Noise.seeded(1)).log.user_count() == 5


# The audit in one run


def audited(claimed, real, canaries, guesses):
    """The ε that a run proves, with the right guesses of the clearest canaries."""
    coins = Noise.seeded(1).stream("coins").bernoulli(0.5, canaries.canaries)
    evidence = canaries.evidence(real.protect(canaries.log(coins), Noise.seeded(2)))
    clearest = np.argsort(-np.abs(evidence), kind="stable")[:guesses]
    clearest = clearest[evidence[clearest] != 0]
    right = int(((evidence > 0) == coins)[clearest].sum())
    return one_run.epsilon_at_least(right, len(clearest), delta=claimed.delta, canaries=canaries.canaries)


def test_the_audit_in_one_run_stays_below_the_claim():
    mechanism = Distill(epsilon=2.0, users=1)
    for canaries in mechanism.canaries(iter(())):
        assert audited(mechanism, mechanism, canaries, 200) < 2.0, canaries.name


def test_canaries_see_a_mechanism_that_adds_hardly_any_noise():
    claimed, real = Distill(epsilon=2.0, users=1), Distill(epsilon=40.0, users=1)
    assert audited(claimed, real, claimed.canaries(iter(()))[0], 200) > 2.0
