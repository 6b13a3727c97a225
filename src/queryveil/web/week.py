"""One made-up person's week of searches, and what a recipient still sees of it as a protection grows stronger.

The log is made up as well: one week of 2,700 synthetic people (`queryveil.log.synthetic`), the same everywhere, so that
nobody's week comes onto a screen by accident and nothing of the holder's own log is in the picture. Everything else is
real. At each stop the mechanism runs on the whole of that log, with a fixed seed, and what became of each search is
looked up in its release by who is behind each record, which the holder of a log knows and a recipient does not.

Runs in the server, one at a time, as `try_query` does; each stop is computed once.
"""

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime, timedelta
from functools import cache
from typing import Final

import polars as pl
from markupsafe import Markup

from queryveil import mechanisms
from queryveil.errors import UsageError
from queryveil.experiments.sweep import Setting, Sweep
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise
from queryveil.release.mechanism import declares
from queryveil.release.wording import in_words
from queryveil.report.charts import svg, text
from queryveil.web.models import Fate, Search, Week

USERS, RECORDS, SEED = 6_000, 260_000, 1
MONDAY: Final = datetime(2026, 3, 2)
SEARCHES: Final = (18, 32)
"""How many different texts the person's week has: enough for a picture, few enough for every mark to be seen."""
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
FATES: Final[dict[Fate, str]] = {
    "together": "as typed, beside other searches of this person",
    "apart": "as typed, beside no other search of this person",
    "others": "not from this person; the same text is there from others, or made up",
    "gone": "not there",
}
"""What may become of a search, the most telling first."""

LEFT, TOP, COLUMN, ROW, MARK = 34, 22, 48, 15, 9
_one_at_a_time = threading.Lock()


def week(mechanism: str, setting: int = 0) -> Week:
    """The person's week without protection (0) or at one of the stops of a mechanism (1 and on), weak to strong."""
    known = stops(mechanism)
    if not 0 <= setting <= len(known):
        raise UsageError(f"this protection has the settings 0 to {len(known)}.")
    with _one_at_a_time:
        return _week(mechanism, setting)


@cache
def stops(mechanism: str) -> tuple[Setting, ...]:
    """The settings that a comparison would try, the weakest first: a larger ε protects less, other numbers more."""
    if mechanism not in mechanisms.names():
        raise UsageError(f"there is no mechanism of that name. Choose one of {', '.join(mechanisms.names())}.")
    own = [one for one in Sweep.usual().only("mechanism") if one.name == mechanism]
    return tuple(sorted(own, key=lambda one: -float(one.parameters.get("epsilon", 0))))


@cache
def sample() -> tuple[QueryLog, str]:
    """The week's log, and whose week is shown: who asked most of what others asked too, or all would go at once."""
    made = synth(users=USERS, records=RECORDS, seed=SEED).frame
    log = made.filter(pl.col("time").is_between(MONDAY, MONDAY + timedelta(days=7), closed="left"))
    shared = pl.col("user").n_unique().over("query") >= 5
    people = (
        log.with_columns(shared=shared)
        .group_by("user")
        .agg(pl.col("query").n_unique().alias("texts"), pl.col("time").dt.date().n_unique().alias("days"),
             pl.col("shared").sum())
        .filter(pl.col("texts").is_between(*SEARCHES), pl.col("days") == len(DAYS))
    )  # fmt: skip
    return QueryLog(log), str(people.sort("shared", "user", descending=[True, False])["user"][0])


@cache
def _week(mechanism: str, setting: int) -> Week:
    log, person = sample()
    asked = log.frame.filter(user=person).sort("time")
    kind, known = mechanisms.load(mechanism), stops(mechanism)
    released, owners, times, made_up = log.frame, log.frame["user"], "kept as they were", False
    if setting:
        protection = known[setting - 1].made()
        release = protection.protect(log, Noise.seeded(SEED))
        released, owners, times = release.log.frame, release.owners, release.columns["time"]
        made_up = declares(protection, "synthetic_users", protection.mode)
    nobody = pl.Series("owner", [None] * released.height, pl.String)
    behind = released.select("user", "query", (nobody if owners is None else owners).alias("owner"))
    theirs = behind.filter(owner=person)
    fates = _fates(asked["query"], theirs, behind["query"])
    names = theirs["user"].unique()
    instead = Counter(theirs.filter(~pl.col("query").is_in(asked["query"].implode()))["query"].to_list())
    when = asked.select("query", day=pl.col("time").dt.weekday() - 1, hour=pl.col("time").dt.hour())
    return Week(
        mechanism=mechanism,
        title=str(getattr(kind, "title", mechanism)),
        settings=["as it was asked", *(in_words(kind, one.parameters) for one in known)],
        setting=setting,
        log_records=len(log),
        log_people=log.user_count(),
        searches=[
            Search(day=row["day"], hour=row["hour"], text=row["query"], fate=fates[row["query"]])
            for row in when.unique(maintain_order=True).iter_rows(named=True)
        ],
        instead=[word for word, _ in instead.most_common()],
        records=len(theirs),
        names=len(names),
        of_others=int(behind["user"].is_in(names.implode()).sum()) - len(theirs),
        times=times,
        made_up=len(released) if made_up else None,
    )


def _fates(asked: pl.Series, theirs: pl.DataFrame, released: pl.Series) -> dict[str, Fate]:
    """What became of each text: `theirs` are the released records behind which the person is."""
    tying = theirs.group_by("user").agg(pl.col("query").n_unique()).filter(pl.col("query") > 1)["user"]
    together = set(theirs.filter(pl.col("user").is_in(tying.implode()))["query"])
    kept, anybody = set(theirs["query"]), set(released.filter(released.is_in(asked.implode())))
    ranked: tuple[tuple[Fate, set[str]], ...] = (("together", together), ("apart", kept), ("others", anybody))
    return {one: next((fate for fate, texts in ranked if one in texts), "gone") for one in asked}


def picture(shown: Week) -> Markup:
    """The week as a calendar: a column for each day, a row for each hour, a mark for each search in its place.

    A mark keeps its id from stop to stop, so that the page can let it change before the eye.
    """
    width, height = LEFT + COLUMN * len(DAYS), TOP + ROW * 24 + 4
    parts = [text(day, LEFT + COLUMN * (number + 0.5), 13, "middle") for number, day in enumerate(DAYS)]
    for hour in range(0, 24, 6):
        y = TOP + ROW * hour
        parts.append(Markup('<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(LEFT, y, width, y))
        parts.append(text(f"{hour}:00", LEFT - 4, y + 11, "end"))
    in_cell = Counter((one.day, one.hour) for one in shown.searches)
    placed: Counter[tuple[int, int]] = Counter()
    mark = Markup('<rect id="m{}" class="mark {}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>')
    for number, one in enumerate(shown.searches):
        cell = one.day, one.hour
        step = min(MARK + 2.0, (COLUMN - 4 - MARK) / max(in_cell[cell] - 1, 1))
        x = LEFT + COLUMN * (one.day + 0.5) - MARK / 2 + step * (placed[cell] - (in_cell[cell] - 1) / 2)
        placed[cell] += 1
        said = f"{DAYS[one.day]} {one.hour}:00, “{one.text}”: {FATES[one.fate]}"
        parts.append(mark.format(number, one.fate, round(x, 1), TOP + ROW * one.hour + 3, MARK, MARK, said))
    return svg("plot week", width, height, "One person's week of searches, by day and hour", parts)
