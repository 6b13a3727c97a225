"""Every recipe of CONTRIBUTING.md runs: its file becomes a package with an entry point and is used as the text says."""

import json
import re
import sys
import tomllib
from dataclasses import dataclass
from importlib import invalidate_caches
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import queryveil as qv
from queryveil import plugins
from queryveil.cli import main as cli
from queryveil.errors import UsageError
from queryveil.experiments.sweep import Sweep
from queryveil.log.formats import FORMATS
from queryveil.web.app import create
from queryveil.web.settings import WebSettings
from waiting import wait_until

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPE = re.compile(
    r"^### (?P<title>.+?)\n.*?^```python\n# (?P<file>\w+\.py)\n(?P<part>.*?)^```"
    r".*?^```toml\n(?P<toml>.*?)^```"
    r".*?^```python\n# test_\w+\.py\n(?P<usage>.*?)^```",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Recipe:
    """The one file of a part, how it is made known, and how it is tried."""

    title: str
    file: str
    part: str
    toml: str
    usage: str

    def install(self, folder: Path) -> None:
        """What `pip install` leaves behind: the file, and a dist-info folder with the entry point."""
        (folder / self.file).write_text(self.part, encoding="utf-8")
        info = folder / f"{Path(self.file).stem}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {Path(self.file).stem}\nVersion: 1.0\n")
        groups = tomllib.loads(self.toml)["project"]["entry-points"]
        lines = [
            f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in groups.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(lines))


RECIPES = {found["title"]: Recipe(**found.groupdict()) for found in RECIPE.finditer(TEXT)}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Makes a recipe known to this process and to those that it starts."""
    before = set(sys.modules)

    def install(*titles):
        place = tmp_path / "site"
        place.mkdir()
        for title in titles:
            RECIPES[title].install(place)
        monkeypatch.syspath_prepend(place)
        monkeypatch.setenv("PYTHONPATH", str(place), prepend=":")
        monkeypatch.chdir(tmp_path)
        forget()

    def forget():
        """Both are looked up once a process, and another test may have done so."""
        plugins.installed.cache_clear()
        cli._mechanism_command.cache_clear()

    yield install
    forget()
    for name in {Path(recipe.file).stem for recipe in RECIPES.values()} - before:
        sys.modules.pop(name, None)
    invalidate_caches()


@pytest.fixture
def command_line(monkeypatch, capsys):
    """The command line, in this process."""

    def command_line(*words):
        monkeypatch.setattr(sys, "argv", ["queryveil", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        told = capsys.readouterr()
        assert not stop.value.code, told.err
        return told.out

    return command_line


def test_there_is_a_recipe_for_each_kind_of_part():
    assert list(RECIPES) == ["A format", "A mechanism", "An attack", "A measure"]


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_passes_its_kit(title, install):
    install(title)
    exec(compile(RECIPES[title].usage, f"CONTRIBUTING.md ({title})", "exec"), {})


def test_a_part_that_is_not_installed_is_not_known():
    assert "pairs" not in FORMATS
    with pytest.raises(UsageError, match="no mechanism of that name"):
        qv.mechanism("favourite")


def test_the_format_works_on_the_command_line(install, command_line, tmp_path):
    assert "pairs" not in command_line("release", "suppress", "--help")
    install("A format")
    command_line("synth", "--users", "50", "--records", "2000", "-o", "log.pairs.txt")
    command_line("release", "suppress", "log.pairs.txt", "--k-text", "2", "--time", "drop", "-o", "out")
    assert qv.read(tmp_path / "out/log.pairs.txt").user_count() > 0
    assert "pairs" in command_line("release", "suppress", "--help")


def test_the_format_works_on_the_page(install, tmp_path):
    install("A format")
    tokens = []
    settings = WebSettings(folder=tmp_path / "page", largest_upload=1 << 20, largest_unpacked=8 << 20)
    with TestClient(create(settings, tokens.append), base_url=settings.address) as http:
        entered = http.post("/api/session", json={"secret": tokens[-1]})
        http.headers["x-csrf-token"] = entered.json()["csrf"]

        def state_of(job):
            return http.get(f"/api/jobs/{job['id']}").json()

        log = http.post("/api/logs", params={"name": "my.pairs.txt"}, content=b"ann\ttulips\nbob\troses\n").json()
        assert log["guess"]["format"] == "pairs"
        assert '<option value="pairs"' in http.get(f"/logs/{log['id']}").text
        job = http.put(f"/api/logs/{log['id']}/reading", json={"format": "pairs"}).json()
        wait_until(lambda: state_of(job)["state"] in ("done", "failed"), "the job ends")
        ended = state_of(job)
        assert (ended["state"], ended["result"]["statistics"]["records"]) == ("done", 2)


def test_the_mechanism_works_on_the_command_line(install, command_line, tmp_path):
    install("A mechanism")
    command_line("synth", "--users", "30", "--records", "300", "-o", "log.csv")
    assert "ε" in command_line("plan", "favourite", "--epsilon", "2")
    command_line("release", "favourite", "log.csv", "--epsilon", "2", "-o", "out")
    assert len(qv.read(tmp_path / "out/log.csv")) == 30


def test_attack_and_measure_are_in_an_audit_of_the_command_line(install, command_line, tmp_path):
    install("An attack", "A measure")
    command_line("synth", "--users", "40", "--records", "800", "-o", "log.csv")
    command_line("release", "suppress", "log.csv", "--k-text", "2", "-o", "out", "--secrets", "out.secrets")
    found = json.loads(command_line("audit", "log.csv", "out", "--secrets", "out.secrets", "--json"))
    assert {"activity-linkage", "vocabulary"} <= {finding["key"] for finding in found["findings"]}
    assert "Found by how much they search" in (tmp_path / "out-internal" / "report.html").read_text(encoding="utf-8")


def test_advice_for_a_task_of_a_third_party(install):
    install("A measure")
    log = qv.synth(users=40, records=800, seed=1)
    Path("sweep.toml").write_text('seed = 1\n[[mechanism]]\nname = "suppress"\nk_text = [2, 5]\n')
    found = qv.compare(log, sweep=Sweep.read("sweep.toml"))
    assert "vocabulary" in found.tasks()
    assert qv.advise(found, task="vocabulary", max_risk=1.0).chosen.setting.label
