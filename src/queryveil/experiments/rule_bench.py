"""Today's rules beside mechanisms on one log, in the few figures that people argue about.

What each figure is, and where it comes from:

- *kept*: shares of the distinct texts, of the records, and of the records in head and tail of the original, as far as
  they are published with their very text (`queryveil.audit.survival`);
- *found by a pair*, *by a name*: the share of people found by two queries that they asked in a row, or by a family name
  that they searched for (`known-pair`, `known-name`);
- *value*: what somebody who gets the release knows about queries of other people, from 0 (public knowledge) to 1 (raw
  log), judged by people who were kept aside (`queryveil.audit.held_out`);
- *found*: the share of released people whom somebody finds who knows one to five of their queries, at the number of
  queries that is worst (`found-…`); nothing where nobody is behind a name;
- *tied*: the share of people one of whose names leads to another (`tied-by-…`); all where one name lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from queryveil.audit.auditing import audit, described, secrets_of
from queryveil.audit.finding import Finding
from queryveil.audit.held_out.splitting import hold_out
from queryveil.audit.raw_side import RawSide
from queryveil.audit.survival import survival
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.experiments.experiment import nobody
from queryveil.experiments.sweep import Setting
from queryveil.log import QueryLog
from queryveil.privacy import Noise

VALUES: Final = {
    "language": "language",
    "language-head": "language, head",
    "language-tail": "language, tail",
    "head-recall": "frequent queries",
    "next-words": "next query",
}
"""The measures that stand for value, and what each is called."""


PARTS: Final = (
    "uniqueness", "known-pair", "known-name", "tied-pseudonyms", "language", "language-strata", "head", "next-query",
)  # fmt: skip
"""The attacks and measures that these figures come from."""


def bench(
    log: QueryLog, settings: Sequence[Setting], *, on_outcome: Callable[[Outcome], None] = lambda outcome: None
) -> Comparison:
    """Every setting on a log with the attacks and measures of these figures alone; a tenth of the people judge."""
    seen, judges = hold_out(log, 0.1)
    raw, outcomes = RawSide(seen, judges), []
    for setting in settings:
        start, mechanism = time.perf_counter(), setting.made()
        release = mechanism.protect(seen, Noise.seeded(7))
        found = audit(
            seen, release.log, manifest=described(release), secrets=secrets_of(release) or nobody(release.log),
            tables=release.tables, mechanism=mechanism, held_out=judges, only=PARTS, raw=raw,
        )  # fmt: skip
        outcomes.append(
            Outcome(
                setting=setting, seconds=time.perf_counter() - start, records=len(release.log), audit=found,
                survival=survival(seen, release.log),
            )
        )  # fmt: skip
        on_outcome(outcomes[-1])
    return Comparison(tuple(outcomes))


@dataclass(frozen=True, kw_only=True)
class MeasuredRule:
    """One rule or setting on the log."""

    outcome: Outcome
    found: Finding | None
    """The worst of what an acquaintance finds; None where nobody is behind a name."""
    pair: Finding | None
    """Found by two queries asked in a row."""
    name: Finding | None
    """Found by a family name."""
    tied: Finding | None
    """The better of the two ways to tie names together; None where there is nothing to tie."""
    values: dict[str, float]

    @property
    def one_name_lasts(self) -> bool:
        """Whether each person has one name for all their records, so that everything is tied already."""
        return self.found is not None and self.tied is None

    @property
    def tied_share(self) -> float:
        """How many people are tied together."""
        if self.tied is not None:
            return self.tied.value
        return 1.0 if self.one_name_lasts else 0.0

    @property
    def found_share(self) -> float:
        """How many people are found."""
        return 0.0 if self.found is None else self.found.value

    @property
    def exposed(self) -> float:
        """The greatest of all shares."""
        known = [found.value for found in (self.pair, self.name) if found is not None]
        return max(self.found_share, self.tied_share, *known)

    @property
    def label(self) -> str:
        """What it is called."""
        return self.outcome.setting.label


def measured(comparison: Comparison) -> list[MeasuredRule]:
    """The figures of every setting that could be tried."""
    return [
        _of(outcome) for outcome in comparison.outcomes if outcome.audit is not None and outcome.survival is not None
    ]


def _of(outcome: Outcome) -> MeasuredRule:
    assert outcome.audit is not None
    findings = outcome.audit.findings
    values = {found.key: found.value for found in findings if found.key in VALUES}
    return MeasuredRule(
        outcome=outcome,
        found=_worst(findings, "found-"),
        pair=_worst(findings, "known-pair"),
        name=_worst(findings, "known-name"),
        tied=_worst(findings, "tied-by-"),
        values=values if outcome.records else dict.fromkeys(VALUES, 0.0),
    )


def _worst(findings: tuple[Finding, ...], prefix: str) -> Finding | None:
    """The highest figure of these; of those from enough trials, where there are any."""
    some = [found for found in findings if found.key.startswith(prefix)]
    return max([found for found in some if not found.too_few] or some, key=lambda found: found.value, default=None)
