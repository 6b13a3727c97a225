"""Keep only queries that many people asked.

Adar (2007), "User 4XXXXX9: Anonymizing Query Logs": a query text is published once at least `k_text` different users
issued it. The paper shares secrets so that nobody can read a rarer text; we simply withhold it, which needs a trusted
holder and no cryptography. Safe mode also withholds texts that identify by themselves (e-mail addresses, long digit
strings, URLs with credentials), publishes a clicked URL and its rank only where `k_text` users clicked it for that
query, and coarsens times. It is the pre-filter of the mechanisms that are not differentially private.

Departs from the paper: users get fresh pseudonyms, because the paper's stable ones link releases of one person at once.
Fresh ones do not make releases unlinkable: whose queries stay the same is found again by them, and a text that is gone
after somebody left was theirs. So do not publish a log again after an opt-out, or know that this shows.
Cost: a few passes over the table, memory in the number of distinct texts.

>>> from queryveil import Noise, QueryLog
>>> log = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "my secret illness")])
>>> Suppress(k_text=2).protect(log, Noise.seeded(1)).log.queries()
['weather', 'weather']
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from queryveil.checks import one_of, require, whole_number
from queryveil.privacy import Charge, Guarantee, NoGuarantee
from queryveil.privacy.guarantee import COMPARED_RELEASES, KNOWN_PAST, ONE_ID_ONE_PERSON, TRUSTED_HOLDER
from queryveil.release.mechanism import (
    MODES,
    PSEUDONYM,
    Mode,
    TimeTreatment,
    askers,
    check_time,
    coarsened,
    refuse_exact_times,
    time_in_words,
)

if TYPE_CHECKING:
    import polars as pl

    from queryveil.log import QueryLog
    from queryveil.privacy import Noise
    from queryveil.release.release import Release


@dataclass(frozen=True, kw_only=True)
class Suppress:
    """Withhold every query text issued by fewer than `k_text` distinct users."""

    name: ClassVar[str] = "suppress"
    title: ClassVar[str] = "Withhold rare queries"
    summary: ClassVar[str] = "Only texts that many people asked are published."
    sweep: ClassVar = {"k_text": [2, 5, 20]}
    effort: ClassVar[float] = 1.0
    citation: ClassVar[str] = """@inproceedings{adar2007user,
  author    = {Eytan Adar},
  title     = {User 4XXXXX9: Anonymizing Query Logs},
  booktitle = {Query Log Analysis Workshop at the International World Wide Web Conference},
  year      = {2007}
}"""
    withholds_rare_texts: ClassVar[bool] = True

    k_text: int = field(
        default=5,
        metadata={"help": "publish a text only if this many different users issued it",
                  "label": "people behind each text", "shown": "texts of at least {} people"},
    )  # fmt: skip
    time: TimeTreatment = field(default="day", metadata={"help": "what becomes of times: drop, day, hour or keep"})
    mode: Mode = "safe"

    def __post_init__(self) -> None:
        require(
            whole_number("k_text", self.k_text, at_least=2, at_most=10**9, suggest=5),
            check_time("time", self.time),
            one_of("mode", self.mode, MODES, suggest="safe"),
        )
        refuse_exact_times(self.mode, self.time)

    def guarantee(self) -> Guarantee:
        """Nothing formal: withholding is decided on the private data itself."""
        return NoGuarantee(
            reason=f"a text is published only where at least {self.k_text} different users issued it, "
            "which hides what one person typed, not who typed a popular text",
            assumptions=(ONE_ID_ONE_PERSON, TRUSTED_HOLDER),
            not_protected=(
                KNOWN_PAST,
                "combinations of popular queries under one pseudonym, and the days and clicks published with them",
                "how active each user is",
                *([] if self.time == "drop" else [f"when each user is active ({time_in_words(self.time)})"]),
                f"texts that somebody with {self.k_text - 1} accounts brings out by typing them",
                *COMPARED_RELEASES,
            ),
        )

    def charge(self) -> Charge:
        """No loss that adds up."""
        return Charge.nothing()

    on_cluster: ClassVar[bool] = True

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """Withhold rare and identifying texts and rename the users."""
        from queryveil.release.release import Release, Renaming

        table = log.table()
        shared = table.map_blocks("query", self._shared, table.schema)
        renamed = shared.map_blocks("user", Renaming.of(noise, table.blocks), Renaming.schema(table.schema))
        return Release.of_table(self, renamed, noise=noise, columns=self._columns())

    def _shared(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """What may be published of a block of texts."""
        import polars as pl

        from queryveil.log.identifying import is_identifying

        rows = rows.filter(askers("query") >= self.k_text).with_columns(coarsened(self.time))
        if self.mode == "paper":
            return rows
        rows = rows.filter(~is_identifying("query"))
        shared_click = (askers("query", "url") >= self.k_text) & ~is_identifying("url")
        rows = rows.with_columns(pl.when(shared_click).then("url").alias("url"))
        shared_rank = pl.col("url").is_not_null() & (askers("query", "url", "rank") >= self.k_text)
        return rows.with_columns(pl.when(shared_rank).then("rank").alias("rank"))

    def _columns(self) -> dict[str, str]:
        kept = f"kept where at least {self.k_text} users share it"
        columns = {"user": PSEUDONYM, "query": kept, "time": time_in_words(self.time)}
        if self.mode == "paper":
            return columns | {"url": "kept as it was", "rank": "kept as it was"}
        return columns | {"url": f"{kept} for the query", "rank": f"{kept} for the query and URL"}
