"""`queryveil compare` and `queryveil advise`."""

import html
import io
import json
import shlex

import pytest
from rich.console import Console

from queryveil.cli import console
from queryveil.log import QueryLog, write
from queryveil.report import comparison_page

SWEEP = """
seed = 2
[[mechanism]]
name = "suppress"
k_text = [2, 5]
[[rule]]
name = "frequency"
"""


TEXTS = [
    f"{what} {where}" for what in ("weather", "cheap hotels", "train times") for where in ("paris", "rome", "oslo")
]


class Terminal(io.StringIO):
    """What somebody looks at."""

    def isatty(self):
        return True


def crowd(people=150):
    """People enough to decide, who all ask a few of the same texts."""
    rows = [(f"u{one:03}", TEXTS[(one * turn + turn) % len(TEXTS)]) for one in range(people) for turn in range(1, 9)]
    return QueryLog.of(rows)


@pytest.fixture
def log(tmp_path):
    write(crowd(), tmp_path / "log.csv")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path / "log.csv"


def test_compare_shows_every_setting_and_where_the_report_is(run, log, tmp_path):
    code, out, _ = run("compare", log, "--config", tmp_path / "sweep.toml", "--workers", "1")
    assert code == 0
    assert "suppress" in out
    assert "log-comparison/report.html" in out.replace("\n", "")
    assert (tmp_path / "log-comparison" / "report.html").is_file()


def test_compare_prints_one_json_object(run, log, tmp_path):
    code, out, _ = run(
        "compare", log, "--config", tmp_path / "sweep.toml", "-o", tmp_path / "c", "--workers", "1", "--json"
    )
    assert code == 0
    assert [row["label"] for row in json.loads(out)["settings"]][:2] == ["suppress k_text=2", "suppress k_text=5"]


def test_people_are_kept_aside_to_judge_every_setting(run, tmp_path):
    write(crowd(240), tmp_path / "log.csv")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    given = ["compare", tmp_path / "log.csv", "--config", tmp_path / "sweep.toml", "--workers", "1", "--json"]
    code, out, err = run(*given, "-o", tmp_path / "c", "--hold-out", "0.3")
    assert code == 0, err
    assert all(row["utility: language"] > 0 for row in json.loads(out)["settings"])
    page = (tmp_path / "c" / "report.html").read_text()
    assert "people were kept aside by a public hash of their ids" in page
    code, out, err = run(*given, "-o", tmp_path / "d", "--hold-out", "0")
    assert code == 0 and "utility: language" not in json.loads(out)["settings"][0], err
    code, _, err = run("compare", tmp_path / "absent.csv", "--hold-out", "0.9")
    assert (code, "hold_out must be" in err) == (2, True)


def test_advise_names_the_command_and_the_reasons(run, log, tmp_path):
    sweep = tmp_path / "sweep.toml"
    code, out, _ = run("advise", log, "--task", "frequency", "--max-risk", "1", "--config", sweep, "--workers", "1")
    assert code == 0
    assert f"queryveil release suppress {log} -o {tmp_path / 'log-release'} --k-text" in out
    assert "Of 2 settings tried, 2 may be published and keep" in out
    assert "May it be published? With care." in out


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_that_advise_prints_runs_as_printed_and_its_release_says_who_chose(run, tmp_path, as_json):
    log = tmp_path / "my log.txt"
    write(crowd(), log, format="jsonl")
    renamed = log.read_text().replace('"user":', '"uid":')
    log.write_text(renamed)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    read_as = ["--format", "jsonl", "--columns", "user=uid", "--similar-ids", "different"]
    asked = ["--task", "frequency", "--max-risk", "1", "--config", tmp_path / "sweep.toml", "--workers", "1"]
    code, out, _ = run("advise", log, *read_as, *asked, *(["--json"] if as_json else []))
    assert code == 0
    printed = json.loads(out)["command"] if as_json else out.splitlines()[0].removeprefix("Take: ")
    name, *arguments = shlex.split(printed)
    assert name == "queryveil"
    assert run(*arguments)[0] == 0
    _of_a_release_chosen_by(run, tmp_path / "my log-release", "advise")


def test_the_commands_that_compare_prints_run_as_printed_and_are_on_its_page(run, log, tmp_path, monkeypatch):
    best = comparison_page.best_outcomes
    monkeypatch.setattr(comparison_page, "best_outcomes", lambda found: best(found, max_risk=1.0))  # few people here
    (tmp_path / "sweep.toml").write_text(SWEEP.replace("[2, 5]", "5"))
    code, out, _ = run("compare", log, "--config", tmp_path / "sweep.toml", "--workers", "1")
    assert code == 0
    printed = [line for line in out.splitlines() if line.startswith("queryveil release")]
    assert len(set(printed)) == 1
    page = (tmp_path / "log-comparison" / "report.html").read_text()
    assert html.escape(printed[0]) in page
    assert run(*shlex.split(printed[0])[1:])[0] == 0
    _of_a_release_chosen_by(run, tmp_path / "log-release", "compare")


def _of_a_release_chosen_by(run, folder, chooser):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["parameters_chosen_by"] == chooser
    assert json.loads(run("verify", folder, "--json")[1])["parameters_chosen_by"] == chooser
    assert f"{chooser} tried settings on this very log, and no budget paid for it" in run("verify", folder)[1]


def test_advise_refuses_where_no_setting_meets_the_risk(run, log, tmp_path):
    given = ["--task", "frequency", "--max-risk", "0", "--config", tmp_path / "sweep.toml", "-o", tmp_path / "c"]
    given += ["--workers", "1"]
    code, out, err = run("advise", log, *given)
    assert code == 3
    assert "The least risky is" in out
    assert "no setting tried" in err
    code, out, _ = run("advise", log, *given, "--json")
    assert code == 3
    assert json.loads(out)["setting"] is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--config", "missing.toml"], "cannot read"),
        (["--workers", "0"], "workers must be"),
        (["--format", "nonsense"], "format must be"),
    ],
)
def test_wrong_usage_is_told_before_any_work(run, tmp_path, options, told):
    code, _, err = run("compare", tmp_path / "a log that is not there.csv", *options)
    assert code == 2
    assert told in err.replace("\n", " ")


def test_what_is_wrong_with_a_request_for_advice_is_told_before_the_log_is_read(run, tmp_path):
    missing = tmp_path / "a log that is not there.csv"
    code, out, err = run("advise", missing, "--task", "cooking", "--max-risk", "7", "-o", tmp_path / "c")
    assert (code, out) == (2, "")
    told = " ".join(err.split())
    assert "there is no task of that name. Choose one of topic profiles, query frequency" in told
    assert "must be" in told
    assert list(tmp_path.iterdir()) == []


def test_the_table_fills_line_by_line_where_nobody_looks_at_a_terminal(run, log, tmp_path):
    sweep = tmp_path / "sweep.toml"
    sweep.write_text('[[mechanism]]\nname = "microaggregate"\nk = 3\n' + SWEEP.replace("seed = 2", ""))
    given = ["compare", log, "--config", sweep, "-o", tmp_path / "c", "--workers", "1"]
    code, out, err = run(*given)
    assert code == 0
    heads, *rows = err.splitlines()
    assert heads.split() == ["setting", "time", "publish?", "worst", "attack", "texts", "published"]
    quick_first = ["suppress k_text=2", "suppress k_text=5", "microaggregate k=3", "frequency"]
    assert [row[: len(label)] for row, label in zip(rows, quick_first, strict=True)] == quick_first
    assert all(" s " in row for row in rows)
    assert out.index("microaggregate") < out.index("suppress")  # at the end the order of the sweep
    _, _, err = run(*given)
    assert [row.split()[0] for row in err.splitlines()[1:]] == ["microaggregate", "suppress", "suppress", "frequency"]
    assert all(" kept " in row for row in err.splitlines()[1:])


def test_what_is_being_done_is_shown_below_the_table_in_a_terminal(monkeypatch):
    seen = Terminal()
    monkeypatch.setattr(console, "messages", Console(file=seen, force_terminal=True, width=100, highlight=False))
    with console.growing_table("compare", ("setting", "time"), (10, 8), 2) as table:
        with table.before("reading"):
            pass
        table.doing("one", "protecting", 0.5)
        table._progress.refresh()
        table.done("one", ["one", "1.0 s"])
    shown = seen.getvalue()
    assert "one: protecting, 50%" in shown
    assert "reading" in shown
    assert shown.index("protecting") < shown.index(f"{'one':<10}  {'1.0 s':>8}")


def test_a_column_of_categories_is_read_from_json_lines_too(run, tmp_path):
    log = tmp_path / "log.jsonl"
    rows = (
        {"user": user, "query": text, "topic": f"Travel: {text}"}
        for user, text in crowd(30).frame.select("user", "query").rows()
    )
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "sweep.toml").write_text('[[mechanism]]\nname = "stream"\nk = 2\ncategory_column = "topic"\n')
    code, out, _ = run("compare", log, "--config", tmp_path / "sweep.toml", "--workers", "1", "--json")
    assert code == 0
    (row,) = json.loads(out)["settings"]
    assert row["problem"] is None
    assert row["records"] > 0
