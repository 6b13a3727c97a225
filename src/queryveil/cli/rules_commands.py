"""`queryveil rules`: today's rules for sharing search data on one log, beside mechanisms that promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryveil.cli import console
from queryveil.cli.compare_commands import Config, Results, Workers, try_all
from queryveil.cli.log_options import AsJson, HeldOut, HoldOut, SimilarIds, reads_log

if TYPE_CHECKING:
    from queryveil.experiments.rule_bench import MeasuredRule
    from queryveil.release.pipeline import Source


@reads_log(similar_ids=SimilarIds)
def rules(
    source: Source,
    config: Config = None,
    output: Results = None,
    held_out: HeldOut = None,
    hold_out: HoldOut = 0.1,
    workers: Workers = 2,
    json: AsJson = False,
) -> None:
    """What today's rules for sharing search data protect and keep of a log, beside mechanisms that promise."""
    from queryveil.experiments.rule_bench import measured
    from queryveil.experiments.sweep import Sweep
    from queryveil.report.rules_page import answers, write_rules

    sweep = Sweep.beside_rules() if config is None else Sweep.read(config)
    log = source.path
    folder = output or log.with_name(f"{log.name.split('.')[0]}-rules")
    found = try_all(source, sweep, folder, workers, held_out, hold_out)
    page = write_rules(found, folder, subject=log.name)
    rows = measured(found)
    said = [f"{word}: {sentence}" for word, sentence in answers(rows)]
    if json:
        console.show_json({"report": page, "rules": [_as_json(row) for row in rows], "answers": said})
        return
    heads = ["", "records", "tail", "language", "found", "pair", "name", "tied"]
    console.show_grid("rules: shares kept; people found by a few queries, a pair, a name", heads, map(_line, rows))
    for sentence in said:
        console.show(f"- {sentence}")
    console.show(f"Report for you alone, with exact figures of the log: {page}")


def _line(row: MeasuredRule) -> list[str]:
    from queryveil.report.formatting import percent

    kept = row.outcome.survival
    shares = (None, None) if kept is None else (kept.volume, kept.tail)
    found, pair, name = (None if one is None else one.value for one in (row.found, row.pair, row.name))
    tied = None if row.found is None else row.tied_share
    return [row.label, *(percent(share) for share in (*shares, row.values.get("language"), found, pair, name, tied))]


def _as_json(row: MeasuredRule) -> dict[str, object]:
    return {
        "label": row.label,
        "kept": None if row.outcome.survival is None else vars(row.outcome.survival),
        "value": row.values,
        "found": None if row.found is None else row.found.value,
        "found_by_pair": None if row.pair is None else row.pair.value,
        "found_by_name": None if row.name is None else row.name.value,
        "tied": None if row.found is None else row.tied_share,
        "tied_by_chance": None if row.tied is None else row.tied.chance,
    }
