"""How the documentation site is put together (docs/site/build.py); building it is a step of CI: `make site`."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("site_build", ROOT / "docs" / "site" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    build.gather(folder)
    return folder


def test_every_page_is_in_the_navigation(build, pages):
    assert build.unlisted(pages) == []
    (pages / "lost.md").write_text("# Lost")
    assert build.unlisted(pages) == ["lost.md"]
    (pages / "lost.md").unlink()


def test_links_between_files_become_links_between_pages(pages):
    home = (pages / "index.md").read_text(encoding="utf-8")
    assert "](formats.md#bad-lines)" in home
    assert "](reference/mechanisms.md#queryveil.mechanisms.suppress)" in home
    assert "](index.md)" not in home
    assert "](contributing.md#a-format)" in (pages / "formats.md").read_text(encoding="utf-8")
    assert "](notebooks/holder.md)" in (pages / "notebook.md").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference(pages):
    import queryveil as qv

    text = (pages / "reference" / "index.md").read_text(encoding="utf-8")
    assert set(qv.__all__) <= set(re.findall(r"^## qv\.(\w+)$", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("name", "text", "fetches"),
    [
        ("a.html", '<script src="https://cdn.example/x.js"></script>', True),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/x.css">', True),
        ("a.html", '<img src="http://images.example/x.png">', True),
        ("a.css", "@import 'https://fonts.example/x.css';", True),
        ("a.css", "a { background: url(//images.example/x.png) }", True),
        ("a.html", '<a href="https://example.org">read on</a><img src="x.png"><script src="x.js"></script>', False),
        ("a.html", '<link rel="canonical" href="https://example.org/a.html">', False),
        ("a.css", "a { background: url(data:image/svg+xml,x) }", False),
    ],
)
def test_what_would_be_fetched_from_elsewhere_is_found(build, tmp_path, name, text, fetches):
    (tmp_path / name).write_text(text)
    assert bool(build.outside_resources(tmp_path)) == fetches


def test_the_page_on_todays_rules_lies_beside_the_text_that_leads_to_it(build, tmp_path):
    (tmp_path / "rules.md").write_text("# Title\n\nText.\n")
    build.add_rules(tmp_path, "<p>figures</p>")
    assert (tmp_path / build.RULES_PLACE).read_text() == "<p>figures</p>"
    title, link, text = (tmp_path / "rules.md").read_text().split("\n\n")
    assert (title, text) == ("# Title", "Text.\n") and f'href="{build.RULES_PLACE}"' in link
