"""Read and write one benchmark's section of a Markdown file, leaving the others alone."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")


def write_section(name: str, markdown: str, file: Path = RESULTS) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->`, or add the section at the end."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    text = file.read_text(encoding="utf-8") if file.exists() else "# Benchmark results\n"
    section = f"{start}\n\n{markdown.strip()}\n\n{end}"
    if start in text:
        before, rest = text.split(start, 1)
        text = before + section + rest.split(end, 1)[1]
    else:
        text = text.rstrip("\n") + f"\n\n{section}\n"
    file.write_text(text, encoding="utf-8")


def section(name: str, file: Path = RESULTS) -> str:
    """What `write_section` wrote last; empty where there is no such section yet."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return text.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0].strip()
