"""Attacks that need to know, to be judged, whose each record is: those on streams, on frequencies, on two releases."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.audit.attacks import frequency, record_linkage
from queryveil.audit.attacks.intersection import groups_by_log, intersect
from queryveil.audit.attacks.neighbours import WINDOWS, repeated_texts, window_plurality
from queryveil.audit.attacks.profiles import AT_LEAST, linkable, profile_linkage
from queryveil.audit.attacks.released_stream import ReleasedStream, Success, cut_to_depth
from queryveil.audit.attacks.rematching import repair
from queryveil.audit.context import Material
from queryveil.audit.finding import Finding, LeftOut
from queryveil.audit.shaping import REPLACES_TEXTS, Found, not_attacked, risk
from queryveil.knowledge._arrays import Ints
from queryveil.mechanisms.semantic.queries import FIRST_OF_QUERY

MOST_LINKED: Final = 3000
PROFILE_DEPTH: Final = 2


def record_links(material: Material) -> Found:
    """A0 without a pool: the author is the one behind the pseudonym, or the busiest of those behind the log."""
    if material.owners is None or material.receivers is None:
        yield not_attacked(material, "Who wrote a record (A0)")
        return
    k = material.promised_k("k-anonymity", "probabilistic-k-anonymity")
    chance = 1 / max(len(material.users), 1)
    yield risk(
        "author-by-name", "Author guessed by the name on the record", "record linkage (A0)", "linkability",
        record_linkage.by_name(material.owners, material.receivers),
        "Share of released records that were written by the person whose pseudonym they carry: what somebody is right "
        "about who found out whom a pseudonym stands for and takes its records at their word.",
        raw=1.0, chance=chance, bound=None if k is None else 1 / k,
    )  # fmt: skip
    if material.promised_k("k-anonymity") is not None:
        yield risk(
            "author-by-activity", "Author guessed as the busiest of the group", "record linkage (A0)", "linkability",
            record_linkage.by_activity(material.original, material.released, material.owners, material.receivers),
            "Share of released records written by the most active of the people who share the log.",
            raw=1.0, chance=chance, bound=1 / k if k is not None and material.safe else None,
        )  # fmt: skip


def stream_attacks(material: Material) -> Found:
    """A0 by re-pairing, A1 and A2: for records that got other people's names."""
    if material.mechanism != "stream":
        return
    if material.owners is None or material.receivers is None:
        yield not_attacked(material, "Re-pairing (A0), window (A1) and repeats (A2)")
        return
    stream = _stream(material, material.owners, material.receivers)
    k, depth = int(material.parameters["k"]), int(material.parameters["depth"])
    bound, excluded = (1 / k, False) if material.safe else (None, True)
    chance = 1 / max(len(material.users), 1)
    algorithms: tuple[Literal["simple", "full"], ...] = ("simple", "full")
    paired = [
        repair(stream, k=k, depth=depth, noise=material.fresh_noise(), algorithm=algorithm, owner_excluded=excluded)
        for algorithm in algorithms
    ]
    yield risk(
        "author-by-repairing", "Author guessed by pairing anew", "record linkage (A0)", "linkability", _best(paired),
        "Share of released records that get their author back where names and queries are paired anew, by the better "
        "of the paper's Algorithms 2 and 3.",
        raw=1.0, chance=chance, bound=bound, confidence=1 - 0.05 / 2,
    )  # fmt: skip
    windows = window_plurality(stream, depth=depth, owner_excluded=excluded)
    yield risk(
        "author-by-window", "Author guessed by who received much nearby", "window (A1)", "linkability",
        _best(list(windows.values())),
        f"Share of released records whose author is the name seen most among the neighbouring releases of the same "
        f"category, for the best of the windows {', '.join(map(str, WINDOWS))}.",
        raw=1.0, chance=chance, bound=bound, confidence=1 - 0.05 / len(WINDOWS),
    )  # fmt: skip
    repeats = repeated_texts(stream, depth=depth, personal=_asked_by_one(material))
    yield Finding(
        key="repeats-eligible", title="Personal texts released again and again", kind="risk", topic="repeat (A2)",
        question="linkability", value=repeats.eligible, bound=0.0 if material.safe else None, trials=len(stream),
        better="lower", unit="count", explanation="Texts that one person alone asked and that were released at "
        "least four times: those that the attack by repeats can be tried on. Counted, not sampled.",
    )  # fmt: skip
    if repeats.eligible:
        yield risk(
            "repeats", "Personal texts given back to their author", "repeat (A2)", "linkability", repeats.success,
            "Share of those texts whose author is the name most often near their releases that never received them.",
            raw=1.0, chance=chance,
        )  # fmt: skip


def _asked_by_one(material: Material) -> npt.NDArray[np.bool_]:
    """For each text whether a single user of the raw log asked it; the gate of a stream counts those who asked."""
    pairs = np.unique(material.original_users.astype(np.int64) * len(material.texts) + material.original_texts)
    found: npt.NDArray[np.bool_] = np.bincount(pairs % len(material.texts), minlength=len(material.texts)) == 1
    return found


def _best(found: list[Success]) -> Success:
    return max(found, key=lambda success: (success.measured, success.right))


def _stream(material: Material, owners: pl.Series, receivers: pl.Series) -> ReleasedStream:
    """The release as an attacker reads it: in its own order in paper mode, by its cut times where it was shuffled."""
    frame = material.released.frame
    order = np.arange(len(frame))
    if material.safe:
        mixed = material.fresh_noise().stream("attack: order within a time").permutation(len(frame))
        times = frame["time"].to_physical().fill_null(0).to_numpy()
        order = mixed[np.argsort(times[mixed], kind="stable")]
    order = order[(owners.is_not_null() & receivers.is_not_null()).to_numpy()[order]]
    categories = material.categories
    return ReleasedStream(
        receivers=material.people(receivers)[order],
        owners=material.people(owners)[order],
        texts=material.released_texts[order],
        categories=categories.of_text[material.released_texts][order],
        parents=categories.parents,
        depths=categories.depths,
        pseudonyms=material.released_names[order],
    )


def profile_links(material: Material) -> Found:
    """A3: link two halves of the release by interests; needs no secrets."""
    title = "Two halves linked by interests (A3)"
    sides = [
        _sides(material, material.original.frame, material.original_users, material.original_texts),
        _sides(material, material.released.frame, material.released_names, material.released_texts),
    ]
    able = [linkable(users, first) for users, _, first in sides]
    people = min(MOST_LINKED, *map(len, able))
    if people < 2:
        where = "release" if len(able[1]) < 2 else "raw log"
        yield LeftOut(title=title, reason=f"fewer than 2 users of the {where} have {AT_LEAST} records in both halves")
        return
    found = []
    for (users, categories, first), candidates in zip(sides, able, strict=True):
        order = material.fresh_noise().stream("attack: people to link").permutation(len(candidates))
        chosen = np.zeros(int(users.max()) + 1, np.bool_)
        chosen[candidates[order[:people]]] = True
        kept = chosen[users]
        found.append(profile_linkage(users[kept], categories[kept], first[kept]))
    raw, shown = found
    yield risk(
        "profiles-linked", title, "profile linkage (A3)", "linkability", shown,
        f"Share of the pseudonyms with at least {AT_LEAST} records in each half of the release whose "
        "second half has the categories nearest to the first, among as many; the raw log likewise with its users.",
        raw=raw.share, chance=1 / people, detail=f"{shown.tried:,} pseudonyms.",
    )  # fmt: skip


def _sides(
    material: Material, frame: pl.DataFrame, users: npt.NDArray[np.int32], texts: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Users, categories, and who is in the first half: by time, or every other record of a user without times."""
    categories = material.categories
    depth = int(material.parameters.get("depth") or PROFILE_DEPTH)
    cut = cut_to_depth(categories.parents, categories.depths, depth)[categories.of_text[texts]]
    known = cut > 0
    released_has_times = material.released.frame["time"].null_count() < len(material.released)
    if released_has_times and not frame["time"].null_count():
        order = np.argsort(frame["time"].to_physical().to_numpy(), kind="stable")
        first = np.zeros(len(frame), np.bool_)
        first[order[: len(order) // 2]] = True
    else:
        order = np.argsort(users, kind="stable")
        first = np.zeros(len(frame), np.bool_)
        first[order] = np.arange(len(order)) % 2 == 0
    return users[known], cut[known], first[known]


def _activity(material: Material) -> Ints:
    """People, once for each thing they did that a release would show as a record.

    Safe mode of semantic has one record for a query, however many clicks the raw log has of it: so counts who attacks.
    """
    if material.mechanism != "semantic" or not material.safe:
        return material.original_users
    shown = material.original.frame.select(FIRST_OF_QUERY).to_series().to_numpy()
    users: Ints = material.original_users[shown]
    return users


def frequencies(material: Material) -> Found:
    """Rank-frequency matching of people by activity, and of texts where the release replaces them."""
    if material.receivers is None:
        yield not_attacked(material, "Frequency matching")
        return
    behind = material.people(material.receivers)
    person = np.full(int(material.released_names.max(initial=-1)) + 1, -1, np.int32)
    person[material.released_names] = behind
    if len(person):
        yield risk(
            "people-by-activity", "Pseudonyms matched with people by how active they are", "frequency",
            "linkability", frequency.by_activity_rank(_activity(material), material.released_names, person),
            "Share of pseudonyms whose place among all by number of records is that of their person in the raw log.",
            raw=1.0, chance=1 / len(person),
        )  # fmt: skip
    if material.mechanism not in REPLACES_TEXTS:
        reason = "texts are released as typed: nothing to read"
        yield LeftOut(title="Texts read by their frequency", reason=reason, by_settings=True)
        return
    halves = material.fresh_noise().stream("attack: people of the public log").permutation(len(material.users))
    public = np.zeros(len(material.users), np.bool_)
    public[halves[: len(halves) // 2]] = True
    read = frequency.read_by_rank(
        material.original_users, material.original_texts, behind, material.released_texts, len(material.texts),
        public=public, stream=material.fresh_noise().stream("attack: reading at random"),
    )  # fmt: skip
    if read.success.measured:
        yield risk(
            "texts-by-frequency", "Texts read by their frequency", "frequency", "inference", read.success,
            "Share of released records that are read as a text their person really asked, where the i-th most frequent "
            "text of the release is read as the i-th most frequent of a public log (the other half of the people).",
            raw=1.0, chance=read.chance,
        )  # fmt: skip


def two_releases(material: Material) -> Found:
    """Who is left as a candidate after both releases."""
    title = "Candidates left after comparing two releases"
    if material.other is None:
        reason = "needs a second release of the same people (--other)"
        yield LeftOut(title=title, reason=reason, by_settings=True)
        return
    others = None if material.other_secrets is None else material.known_people(material.other_secrets.receivers)
    if material.receivers is None or others is None:
        reason = "needs the secrets files of both releases (--secrets, --other-secrets)"
        yield LeftOut(title=title, reason=reason, by_settings=True)
        return
    if material.mechanism == "stream":
        reason = "needs the pools records came out of, which only a live run shows"
        yield LeftOut(title=title, reason=reason, by_settings=True)
        return
    logs = (material.released, material.receivers), (material.other, others)
    seen = [groups_by_log(log, _members(log.frame["user"], people)) for log, people in logs]
    raw = groups_by_log(material.original, material.users.to_frame("user").with_columns(pseudonym="user"))
    both, alone = intersect(*seen), intersect(raw)
    k = material.promised_k("k-anonymity") if material.parameters.get("state") else None
    yield Finding(
        key="two-releases-smallest", title=title, kind="risk", topic="two releases", question="linkability",
        value=both.smallest, raw=alone.smallest, bound=k, trials=len(seen[0]), better="higher", unit="count",
        explanation="The fewest people who can be behind somebody's logs for an attacker who knows that person's log "
        "in each release, and where they are absent. Counted, not sampled.",
    )  # fmt: skip
    yield Finding(
        key="two-releases-singled-out", title="Singled out by comparing two releases", kind="risk",
        topic="two releases", question="singling out", value=both.singled_out, raw=alone.singled_out,
        bound=None if k is None else 0.0, trials=len(seen[0]), better="lower", unit="share",
        explanation="Share of people with nobody else left as a candidate. Counted, not sampled.",
    )  # fmt: skip


def _members(names: pl.Series, people: pl.Series) -> pl.DataFrame:
    pairs = pl.DataFrame([people.alias("user"), names.alias("pseudonym")]).drop_nulls()
    return pairs.group_by("user").agg(pl.col("pseudonym").min())
