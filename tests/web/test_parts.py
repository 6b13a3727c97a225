"""The smaller parts of the page, each by itself."""

import pytest

from queryveil import mechanisms
from queryveil.errors import FormatError, KnowledgeError, ParameterError, Remedy
from queryveil.knowledge.categories import NO_CATEGORY, WordNetClassifier
from queryveil.knowledge.wordnet import WordNet
from queryveil.web import assets, formatting, pages, parameters, rendering, topics
from queryveil.web.models import Point
from queryveil.web.store import NotFoundError, Store, new_identity


def test_every_topic_lies_somewhere_in_the_tree_of_categories():
    tree = WordNetClassifier(WordNet.load()).tree
    for title, paths in (*topics.SENSITIVE.values(), *topics.COARSE.values()):
        for path in paths:
            assert tree.find(path.split("/")) != NO_CATEGORY, f"{title}: {path}"


@pytest.mark.parametrize("name", mechanisms.names())
def test_a_page_offers_no_parameter_that_names_a_file_and_every_mechanism_can_be_made(name):
    view = parameters.describe(name)
    offered = {parameter.name for parameter in view.parameters}
    assert not offered & {"mode", "state", "classifier", "knowledge", "embedding", "corpus"}
    needed = {"semantic": {"epsilon": "1", "per": "query"}, "obfuscate": {"epsilon": "30"}}.get(name, {})
    fields = {p.name: str(p.default) for p in view.parameters if p.default is not None and p.kind != "truth"} | needed
    assert parameters.make(name, parameters.parse_form(name, fields)).mode == "safe"


def test_texts_of_a_form_become_numbers_or_are_refused():
    assert parameters.parse_form("suppress", {"k_text": " 7 ", "time": "hour"}) == {"k_text": 7, "time": "hour"}
    assert parameters.parse_form("suppress", {"k_text": ""}) == {}
    with pytest.raises(ParameterError, match="k_text must be a whole number"):
        parameters.parse_form("suppress", {"k_text": "many"})


def test_exact_times_are_not_even_offered():
    time = next(p for p in parameters.describe("suppress").parameters if p.name == "time")
    assert time.choices == ["drop", "day", "hour"]


def test_a_changed_script_is_refused(monkeypatch):
    assert assets.htmx().startswith(b"var htmx=")
    monkeypatch.setattr(assets, "SHA256", "0" * 64)
    with pytest.raises(KnowledgeError, match="not the one expected"):
        assets.htmx.__wrapped__()


def point(number, risk, kept, **more):
    given = {"kind": "mechanism", "mechanism": "suppress", "parameters": {}, "records": 5, "attack": None}
    given |= {"utility": {}, "frontier": [], "kept": None, "promise": "", "problem": "", "seconds": 0.1}
    return Point(label=f"<{number}>", title=f"<{number}>", risk=risk, kept_for_task=kept, **given | more)


def test_the_frontier_shows_every_measured_setting_once_and_escapes_names():
    points = [point(n, 0.006, 0.3) for n in range(12)] + [point(12, None, None), point(13, 0.5, 0.5, records=0)]
    drawn = pages.frontier(points, 0.05, "query frequency")
    assert drawn.count("<circle") == 12
    assert "&lt;3&gt;" in drawn
    assert "<3>" not in drawn
    assert "style=" not in drawn  # the policy allows no inline style


def test_numbers_that_would_cover_each_other_step_aside():
    points = [point(n, 0.006, 0.3) for n in range(12)]
    drawn = pages.frontier(points, 0.05, "query frequency")
    places = [
        line.split('y="')[1].split('"')[0] + line.split('x="')[1].split('"')[0] for line in drawn.split('"label"')[1:]
    ]
    assert len(set(places)) == 12


def test_an_identity_that_the_server_did_not_make_is_never_looked_up(tmp_path):
    store = Store(tmp_path)
    for wrong in ("", "../x", "A" * 32, new_identity() + "\n", "%00"):
        for look in (store.log, store.job, store.release, store.log_folder, store.release_folder):
            with pytest.raises(NotFoundError):
                look(wrong)


def test_what_was_deleted_is_overwritten_in_the_database(tmp_path):
    store = Store(tmp_path)
    log = new_identity()
    store.add_log(log, title="xyzzy-title", file="log", size=1, sample=False, guess={"names": ["xyzzy"]}, hours=1)
    store.log_folder(log).mkdir()
    job = store.add_job(log, "compare", {})
    store.add_point(job, 0, {"label": "xyzzy"})
    store.delete_log(log)
    assert store.points(job) == {}
    with store._connection() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"xyzzy" not in store.path.read_bytes()


@pytest.mark.parametrize(
    ("remedy", "said"),
    [
        (Remedy("format", "NAME"), "another choice under “Format”"),
        (Remedy("format", "jsonl"), "jsonl under “Format”"),
        (Remedy("input_format", "NAME"), "another choice under “Format”"),
        (Remedy("encoding", "utf-16-le"), "utf-16-le under “Encoding”"),
        (Remedy("columns", "user=uid,query=text"), "other choices under “Which column is which?”"),
        (Remedy("on_error", "skip"), "unticking “stop at bad lines”"),
        (Remedy("similar_ids", "different"), "the command line: only there such ids can be declared different people"),
        (Remedy("block_categories"), "ticking no topic under “Topics to keep out”"),
        (Remedy("config", "FILE"), "stronger settings under “Choose a protection yourself”"),
        (Remedy("port", "ANOTHER"), "starting the server on another port"),
        (Remedy("folder", "ANOTHER"), "starting the server with another folder"),
        (Remedy("max_queries", 50), "50 under “max queries”"),
        (Remedy("delta"), "nothing under “delta”"),
    ],
    ids=lambda given: given.parameter if isinstance(given, Remedy) else "",
)
def test_a_remedy_names_the_field_of_the_page_and_no_option_of_the_command_line(remedy, said):
    error = FormatError("That does not work.", remedy=remedy)
    assert error.describe(formatting.as_page_field) == f"That does not work. Try {said}."
    assert "--" not in said


def test_every_field_that_a_remedy_names_is_on_a_page():
    templates = rendering._templates()
    shown = "".join(templates.loader.get_source(templates, name)[0] for name in templates.list_templates())
    for said in formatting.FIELDS.values():
        for label in said.split("“")[1:]:
            assert label.split("”")[0].capitalize() in shown


def test_the_page_of_a_cancelled_release_tells_what_it_cost_all_the_same():
    ended = rendering._templates().get_template("parts.html").module.ended
    cost = formatting.cost_of_stopping({"paying": True, "paid": True})
    assert cost in ended({"state": "cancelled", "error": cost}, "", False)
    assert "debited" not in ended({"state": "cancelled", "error": None}, "", False)
