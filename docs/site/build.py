"""Build the documentation site: gather the pages, write the API reference, run the generator, check the result.

Pages live where readers of the repository look for them (README, CONTRIBUTING, docs/); here they are copied side by
side with their links turned, notebooks become pages, and every public module of the library gets an entry in the
reference, whose text is made of docstrings. The generator then fails on any warning, such as a link or an anchor that
leads nowhere.

    .venv-docs/bin/python docs/site/build.py        (`make site` prepares the environment)

The site asks nothing of the network: no fonts, no scripts, no images from elsewhere. `outside_resources` checks that.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "queryveil"
CONFIG = Path(__file__).with_name("mkdocs.yml")
PROJECT = ROOT / "build" / "docs"
GENERATOR = "zensical"
RULES = ROOT / "build" / "rules" / "report.html"
"""The page on today's rules that `rules_page.py` makes of a synthetic log."""
RULES_PLACE = "rules-on-a-synthetic-log.html"

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.txt",
    "benchmarks/RESULTS.md": "benchmarks.md",
}
"""What lies outside docs/, and its place on the site."""

REFERENCE = {
    "log": "Logs: what comes in",
    "knowledge": "Knowledge: what words mean",
    "privacy": "Privacy: what is promised",
    "release": "Release: the way out",
    "mechanisms": "Mechanisms",
    "audit": "Audit: what leaks, what is kept",
    "experiments": "Experiments: which to choose",
    "report": "Report: what people read",
    "search": "Search",
    "testing": "Testing: conformance kits",
}
"""The subpackages of the library. Services (page, live, Spark) and the command line have pages of their own."""

LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
OUTSIDE_STYLE = re.compile(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')]+)")
RESOURCES = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


def main() -> None:
    """Gather the pages, build the site and check it."""
    shutil.rmtree(PROJECT, ignore_errors=True)
    gather(PROJECT / "pages")
    if not RULES.exists():
        sys.exit(f"{RULES.relative_to(ROOT)} is missing. Make it with: .venv/bin/python docs/site/rules_page.py")
    add_rules(PROJECT / "pages", RULES.read_text(encoding="utf-8"))
    shutil.copy(CONFIG, PROJECT)
    if lost := unlisted(PROJECT / "pages"):
        sys.exit(f"pages that the navigation of {CONFIG.name} lacks: {', '.join(lost)}")
    command = [sys.executable, "-m", GENERATOR, "build", "--strict", "--config-file", CONFIG.name]
    if code := subprocess.run(command, cwd=PROJECT).returncode:
        sys.exit(code)
    site = PROJECT / "site"
    if found := outside_resources(site):
        sys.exit("\n".join(["the site would load from elsewhere:", *found]))
    print(f"{sum(1 for _ in site.rglob('*.html'))} pages in {site.relative_to(ROOT)}")


def gather(pages: Path) -> None:
    """Write every page of the site as Markdown."""
    places = {ROOT / source: place for source, place in PAGES.items()}
    places |= {path: path.name for path in sorted((ROOT / "docs").glob("*.md"))}
    places |= {path: f"notebooks/{path.stem}.md" for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))}
    places |= {path: f"plots/{path.name}" for path in sorted((ROOT / "docs" / "plots").glob("*.svg"))}
    for path, place in places.items():
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            text = notebook_page(text)
        _write(pages / place, turn_links(text, path, place, places) if place.endswith(".md") else text)
    _write(pages / "reference" / "index.md", everyday_page())
    for name, title in REFERENCE.items():
        _write(pages / "reference" / f"{name}.md", reference_page(name, title))


def add_rules(pages: Path, page: str) -> None:
    """Put the page on today's rules beside the text about them, which then leads to it."""
    _write(pages / RULES_PLACE, page)
    told = (pages / "rules.md").read_text(encoding="utf-8")
    first, rest = told.split("\n\n", 1)
    link = f'<a href="{RULES_PLACE}">All rules on a synthetic log, on one page</a>: which protects, and which keeps?'
    _write(pages / "rules.md", f"{first}\n\n{link}\n\n{rest}")


def unlisted(pages: Path) -> list[str]:
    """Pages that no reader would find."""
    listed = set(re.findall(r"[\w/-]+\.md", CONFIG.read_text(encoding="utf-8").partition("\nnav:\n")[2]))
    return sorted({str(path.relative_to(pages)) for path in pages.rglob("*.md")} - listed)


def turn_links(text: str, path: Path, place: str, places: dict[Path, str]) -> str:
    """Links between files as links between pages; those to a source file lead to its entry in the reference."""

    def turned(match: re.Match[str]) -> str:
        target, anchor = (path.parent / match[1]).resolve(), match[2] or ""
        if target.is_relative_to(PACKAGE):
            parts = target.relative_to(PACKAGE).with_suffix("").parts
            target_place, anchor = f"reference/{parts[0]}.md", f"#queryveil.{'.'.join(parts)}"
        else:
            target_place = places[target]
        return os.path.relpath(target_place, Path(place).parent) + anchor

    kept = FENCE.findall(text)
    outside = [LINK.sub(turned, piece) for piece in FENCE.split(text)]
    return "".join(piece + (kept[number] if number < len(kept) else "") for number, piece in enumerate(outside))


def notebook_page(text: str) -> str:
    """The cells of a notebook, one after the other."""
    pieces = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        pieces.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join(pieces) + "\n"


def everyday_page() -> str:
    """The names at the root of the package, read from its `if TYPE_CHECKING` block without importing anything."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    names = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    lines = [
        "# The everyday interface",
        "",
        "The names of `import queryveil as qv`; each loads when it is used.",
        "",
    ]
    for name, target in sorted(names.items(), key=lambda entry: entry[0].lower()):
        lines += [f"## qv.{name}", "", f"::: {target}", "    options: {show_root_heading: false}", ""]
    return "\n".join(lines)


def reference_page(name: str, title: str) -> str:
    """Every public module of a subpackage, in the order of their names."""
    lines = [f"# {title}", ""]
    for path in sorted((PACKAGE / name).rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        has_text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is not None
        if has_text and not any(part.startswith("_") for part in parts):
            lines += [f"::: {'.'.join(parts)}", ""]
    return "\n".join(lines)


def outside_resources(folder: Path) -> list[str]:
    """Tags of the built pages that would fetch something from the network. A link that a reader may follow is none."""
    return [
        f"{path.relative_to(folder)}: {found}"
        for path in sorted(folder.rglob("*.html"))
        for found in _Resources.of(path.read_text(encoding="utf-8"))
    ] + [
        f"{path.relative_to(folder)}: {address}"
        for path in sorted(folder.rglob("*.css"))
        for address in OUTSIDE_STYLE.findall(path.read_text(encoding="utf-8"))
    ]


class _Resources(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    @classmethod
    def of(cls, html: str) -> list[str]:
        parser = cls()
        parser.feed(html)
        return parser.found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get(RESOURCES.get(tag, "")) or ""
        fetched = tag != "link" or given.get("rel") not in ("canonical", "prev", "next")
        if fetched and re.match(r"(https?:)?//", address):
            self.found.append(f"<{tag}> {address}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
