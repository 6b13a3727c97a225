"""The API from a log to a verified release, and what it says on the way."""

import gzip
import io
import json
import time
import zipfile
from pathlib import Path

import polars as pl
import pytest

from queryveil.log.synthetic import synth
from queryveil.release.manifest import verify
from queryveil.web.store import Store, pack

PURPOSE = {"recipient": "partner", "task": "query frequency", "max_risk": 0.2, "blocked": [], "leave_out": ["rank"]}
SUPPRESS = {"mechanism": "suppress", "parameters": {"k_text": 2}}


def test_from_a_log_to_a_release_that_verifies_with_its_report(visitor, tmp_path):
    log = visitor.sample()
    seen = visitor.get(f"/api/logs/{log}").json()["profile"]
    assert (seen["format"], seen["statistics"]["records"], seen["statistics"]["users"]) == ("aol", 600, 40)
    assert visitor.put(f"/api/logs/{log}/purpose", PURPOSE).status_code == 200
    assert visitor.post("/api/ledger", {"epsilon": 5.0, "delta": 1e-6}).status_code == 201

    preview = visitor.finished(visitor.post(f"/api/logs/{log}/preview", SUPPRESS))["result"]
    assert 0 < preview["kept"] < 1
    assert "rank" not in preview["before"]["columns"]
    assert preview["columns"]["user"] == "replaced by a fresh random pseudonym"

    made = visitor.finished(visitor.post(f"/api/logs/{log}/release", SUPPRESS))
    assert made["state"] == "done", made["error"]
    release = made["result"]["release"]
    report = next(job for job in Store(visitor.settings.folder).jobs(kind="report"))
    ended = visitor.until(report["id"], lambda job: job["state"] not in ("waiting", "running"))
    assert ended["state"] == "done", ended["error"]
    answer = ended["result"]["verdict"]
    page = visitor.get(f"/releases/{release}").text
    assert f"May this be published? {answer['answer']}" in page
    assert answer["line"] in page
    assert preview["texts"] == "with the text as typed"

    packed = zipfile.ZipFile(io.BytesIO(visitor.get(f"/api/releases/{release}/files/all").content))
    packed.extractall(tmp_path)
    folder = tmp_path / f"release-{release[:8]}"
    checked = verify(folder)
    assert checked.manifest["mechanism"] == "suppress"
    assert checked.manifest["parameters_chosen_by"] == "holder"  # only what was released was looked at
    assert {path.name for path in folder.iterdir()} == {"log.tsv", "manifest.json", "manifest.sig", "report.html"}
    assert json.loads(visitor.get(f"/api/releases/{release}/files/manifest").content) == checked.manifest
    assert b"<html" in visitor.get(f"/api/releases/{release}/files/internal").content
    assert visitor.post(f"/api/releases/{release}/verify").json() == {"sound": True, "problems": []}

    ledger = visitor.get("/api/ledger").json()
    assert [entry["id"] for entry in ledger["entries"]] == [checked.manifest["ledger"]]
    assert visitor.post("/api/ledger/verify").json()["sound"]

    assert visitor.delete(f"/api/logs/{log}").status_code == 204
    assert visitor.get(f"/api/releases/{release}").status_code == 200
    assert visitor.get(f"/api/releases/{release}/files/internal").status_code == 422  # it quoted the log
    assert visitor.delete(f"/api/releases/{release}").status_code == 204
    assert not (visitor.settings.folder / "releases" / release).exists()
    assert len(visitor.get("/api/ledger").json()["entries"]) == 1  # what was handed out is not forgotten


def test_a_release_after_other_settings_were_tried_on_the_log_says_so(visitor):
    log = visitor.sample()
    visitor.finished(visitor.post(f"/api/logs/{log}/preview", {"mechanism": "suppress", "parameters": {"k_text": 3}}))
    made = visitor.finished(visitor.post(f"/api/logs/{log}/release", SUPPRESS))
    assert made["state"] == "done", made["error"]
    release = made["result"]["release"]
    assert visitor.get(f"/api/releases/{release}").json()["chosen_by"] == "compare"
    manifest = json.loads(visitor.get(f"/api/releases/{release}/files/manifest").content)
    assert manifest["parameters_chosen_by"] == "compare"
    assert "tried settings on this very log" in manifest["guarantee"]["statement"]


def test_a_release_that_the_budget_does_not_cover_is_refused_and_nothing_is_debited(visitor):
    log = visitor.upload("log.csv", b"user,query\nann,tulips\n").json()["id"]
    visitor.finished(visitor.put(f"/api/logs/{log}/reading", {}))
    visitor.post("/api/ledger", {"epsilon": 1.0})
    wish = {"mechanism": "sanitize", "parameters": {"epsilon": 2.0}}
    answer = visitor.post(f"/api/logs/{log}/release", wish)
    assert answer.status_code == 409
    assert "budget" in answer.json()["error"]
    assert visitor.get("/api/ledger").json()["entries"] == []
    assert visitor.post("/api/plan", wish).json()["affordable"] is False


def test_the_plan_says_what_is_promised_and_what_is_not_before_any_log_is_there(guest):
    plan = guest.post("/api/plan", {"mechanism": "sanitize", "parameters": {"epsilon": 2.0}}).json()
    assert (plan["model"], plan["pays"], plan["epsilon"]) == ("approx-dp", "dataset", 2.0)
    assert plan["not_protected"]
    assert "ε = 2" in plan["headline"]


def test_columns_of_other_names_are_guessed_and_confirmed(visitor):
    content = b"uid;text;timestamp;shop\nann;tulips;2006-03-01;x\nbob;roses;2006-03-02;y\n"
    guess = visitor.upload("shop.csv", content).json()["guess"]
    assert guess["format"] == "csv"
    assert guess["names"] == ["uid", "text", "timestamp", "shop"]
    assert guess["columns"] == {"user": "uid", "query": "text", "time": "timestamp"}
    log = visitor.get("/api/logs").json()[0]["id"]
    job = visitor.finished(visitor.put(f"/api/logs/{log}/reading", {"columns": guess["columns"]}))
    assert [column["name"] for column in job["result"]["columns"]] == ["user", "query", "time", "shop"]


def test_bad_lines_are_left_out_unless_they_shall_stop_everything(visitor):
    log = visitor.upload("log.csv", b"user,query,time\nann,tulips,soon\nbob,roses,2006-03-01\n").json()["id"]
    failed = visitor.finished(visitor.put(f"/api/logs/{log}/reading", {"on_error": "fail"}))
    assert failed["state"] == "failed"
    assert "unticking “stop at bad lines”" in failed["error"]
    done = visitor.finished(visitor.put(f"/api/logs/{log}/reading", {}))
    assert (done["state"], done["result"]["bad_lines"]) == ("done", 1)
    assert done["result"]["problems"][0].startswith("line 2, column time")


def test_the_form_leaves_bad_lines_out_unless_it_is_ticked_to_stop_at_them(visitor):
    log = visitor.upload("log.ubi.jsonl", b'{"user_query": "tulips", "client_id": "ann"}\n{\n').json()["id"]
    assert 'name="fail"><span>Stop at bad lines' in visitor.get(f"/logs/{log}").text
    form = {"format": "ubi", "csrf": visitor.headers["x-csrf-token"]}
    for ticked in ({"fail": "on", "user_field": "user_id"}, {}):
        visitor.http.post(f"/logs/{log}/reading", data=form | ticked, headers=visitor.headers)
        reading = visitor.get(f"/api/logs/{log}").json()["reading"]
        assert reading["on_error"] == ("fail" if ticked else "skip")
        assert reading["user_field"] == ("user_id" if ticked else "client_id")


def test_a_log_without_a_record_is_shown_as_empty_and_cannot_be_compared(visitor):
    log = visitor.upload("log.csv", b"user,query\nann\n").json()["id"]
    done = visitor.finished(visitor.put(f"/api/logs/{log}/reading", {"user_field": "user_id"}))
    assert (done["state"], done["result"]["statistics"]["records"]) == ("done", 0)
    assert visitor.get(f"/logs/{log}").status_code == 200
    purpose = {"recipient": "public", "task": "query frequency", "max_risk": 0.05}
    assert visitor.put(f"/api/logs/{log}/purpose", purpose).status_code == 200
    failed = visitor.finished(visitor.post(f"/api/logs/{log}/comparison"))
    assert (failed["state"], failed["error"]) == ("failed", "the log is empty, so there is nothing to compare.")


def test_a_line_of_ten_megabytes_is_left_out(settings, visitor):
    content = b"user,query\nann," + b"x" * (10 << 20) + b"\nbob,roses\n"
    log = visitor.upload("log.csv.gz", gzip.compress(content)).json()["id"]
    object.__setattr__(settings, "largest_unpacked", 64 << 20)
    job = visitor.finished(visitor.put(f"/api/logs/{log}/reading", {}))
    assert (job["state"], job["result"]["statistics"]["records"]) == ("done", 1)
    assert job["result"]["problems"] == ["line 2, column query: the query is longer than 1,048,576 bytes"]


def test_blocked_topics_are_left_out_before_anything_else(visitor):
    rows = "".join(f"u{n},diabetes symptoms\nu{n},guitar\n" for n in range(6))
    log = visitor.upload("log.csv", f"user,query\n{rows}".encode()).json()["id"]
    visitor.finished(visitor.put(f"/api/logs/{log}/reading", {}))
    health = next(topic for topic in visitor.get("/api/topics").json() if topic["name"] == "health")
    visitor.put(f"/api/logs/{log}/purpose", PURPOSE | {"blocked": health["paths"], "leave_out": []})
    preview = visitor.finished(visitor.post(f"/api/logs/{log}/preview", SUPPRESS))["result"]
    assert {row[preview["after"]["columns"].index("query")] for row in preview["after"]["rows"]} == {"guitar"}


def test_a_protection_that_leaves_nothing_is_not_offered_for_release(visitor):
    log = visitor.upload("log.csv", b"user,query\nann,tulips\nbob,roses\n").json()["id"]
    visitor.finished(visitor.put(f"/api/logs/{log}/reading", {}))
    assert visitor.finished(visitor.post(f"/api/logs/{log}/preview", SUPPRESS))["result"]["records"] == 0
    page = visitor.get(f"/logs/{log}/release?mechanism=suppress&k_text=2").text
    assert "Nothing is left" in page
    assert "Make the release" not in page


def test_a_purpose_with_an_unknown_topic_or_task_is_refused(visitor):
    log = visitor.upload("log.csv", b"user,query\nann,tulips\n").json()["id"]
    visitor.finished(visitor.put(f"/api/logs/{log}/reading", {}))
    for wrong in ({"blocked": ["no/such/place"]}, {"task": "spying"}, {"max_risk": 2.0}, {"recipient": "evil"}):
        assert visitor.put(f"/api/logs/{log}/purpose", PURPOSE | wrong).status_code == 422


def test_work_on_a_log_that_was_not_read_is_refused(visitor):
    log = visitor.post("/api/logs/sample").json()["id"]
    for path, body in (("preview", SUPPRESS), ("release", SUPPRESS), ("comparison", None)):
        assert visitor.post(f"/api/logs/{log}/{path}", body).status_code == 422


def test_a_query_can_be_tried_without_being_kept(guest):
    tried = guest.post("/api/try", {"query": "guitar lessons", "epsilon": 40.0, "n": 2}).json()
    assert len(tried["sent"]) == 2
    assert [word["word"] for word in tried["words"]] == ["guitar", "lessons"]
    assert all(word["could_be"] >= 1 for word in tried["words"])
    assert any("guitar" in category for category in tried["categories"] + tried["concepts"]) or tried["concepts"]
    assert "not ε-differential privacy" in tried["promise"]
    assert b"guitar" not in (guest.settings.folder / "page.db").read_bytes()


def test_an_upload_is_deleted_when_its_time_is_up(visitor):
    from queryveil.web.job_runner import JobRunner

    log = visitor.sample()
    store = Store(visitor.settings.folder)
    folder = store.log_folder(log)
    assert {path.name for path in folder.iterdir()} == {"log.tsv", "prepared.parquet"}
    assert pl.read_parquet(folder / "prepared.parquet").height == 600
    runner = JobRunner(store, visitor.settings)
    runner.sweep()
    assert folder.exists()
    store.set_log(log, expires=time.time() - 1)
    runner.sweep()
    assert not folder.exists()
    assert visitor.get(f"/api/logs/{log}").status_code == 404
    assert store.jobs(log=log) == []


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "tsv.gz"])
def test_logs_of_every_kind_are_recognised(visitor, tmp_path, suffix):
    from queryveil.log import write

    path = tmp_path / f"log.{suffix}"
    log = synth(users=10, records=100)
    write(log.keeping(("user", "query", "time", "rank", "url")), path, format="aol" if "tsv" in suffix else None)
    guess = visitor.upload(path.name, path.read_bytes()).json()["guess"]
    assert guess["format"] == {"tsv.gz": "aol"}.get(suffix, suffix)
    assert guess["problem"] is None


def test_an_empty_file_is_refused(guest):
    answer = guest.upload("log.csv", b"")
    assert (answer.status_code, list((guest.settings.folder / "logs").iterdir())) == (422, [])


@pytest.mark.parametrize("budget", [{"epsilon": 1e-300}, {"epsilon": 9e-10}, {"epsilon": 1.0, "delta": 1e-19}])
def test_a_budget_that_the_ledger_would_round_to_nothing_is_refused(guest, budget):
    answer = guest.post("/api/ledger", budget)
    assert (answer.status_code, "as 0" in answer.json()["error"]) == (422, True)
    assert guest.get("/api/ledger").json()["exists"] is False


def test_an_archive_is_of_one_state_of_the_release_although_a_report_exchanges_it(tmp_path, monkeypatch):
    """The folder is exchanged right after it was listed, and again between the two renames."""
    folder, archive = tmp_path / "release", tmp_path / "release.zip"
    states = []

    def write_state(name, files):
        place = tmp_path / name
        place.mkdir()
        for file in files:
            (place / file).write_text(name)
        return place

    write_state("release", ["log.csv", "manifest.json"])
    listed = Path.iterdir

    def exchanged_meanwhile(path):
        found = list(listed(path))
        if path == folder and not states:
            states.append(folder.rename(tmp_path / "old"))
            write_state("new", ["log.csv", "manifest.json", "report.html"]).rename(folder)
        return iter(found)

    monkeypatch.setattr(Path, "iterdir", exchanged_meanwhile)
    pack(folder, archive, "r")
    packed = zipfile.ZipFile(archive)
    assert {packed.read(name) for name in packed.namelist()} == {b"new"}
    assert sorted(packed.namelist()) == ["r/log.csv", "r/manifest.json", "r/report.html"]
    assert sorted(path.name for path in listed(tmp_path)) == ["old", "release", "release.zip"]
