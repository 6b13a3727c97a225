"""Nothing outside a mechanism knows it by its name: what others must know of it, it declares."""

import ast
import re
from pathlib import Path

import queryveil
from queryveil import mechanisms

SOURCE = Path(queryveil.__file__).parent
OWN = {
    "mechanisms": "the mechanisms themselves, and the table of where they are",
    "distill.py": "the public name of the distilled log's model",
    "live": "the service of the stream mechanism",
    "search": "the searcher's own use of obfuscation",
    "testing": "broken twins of each mechanism",
    "cli/stream_commands.py": "the command of the live service",
    "cli/obfuscate_commands.py": "the command that obfuscates one query",
    "cli/search_commands.py": "the command that searches with obfuscated queries",
    "cli/gateway_commands.py": "the command that opens the search page for it",
    "web/try_query.py": "the page's field for one query, which is obfuscated",
    "cli/main.py": "which commands are loaded late",
    "audit/measures/srp.py": "the measure that microaggregation was published with, over the same profiles",
    "experiments/policies/noisy_threshold.py": "a rule of others, by the thresholds of the same selection",
    "audit/attacks/rematching.py": "the paper's de-anonymizer is its anonymizer, run once more",
}
NAMES = set(mechanisms.BUILT_IN)
IMPORTED = re.compile(r"queryveil\.mechanisms\.(\w+)")


def others():
    """The modules that may not name a mechanism."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if not any(place == own or place.startswith(f"{own}/") for own in OWN):
            yield place, ast.parse(path.read_text(encoding="utf-8"))


def named_in(tree):
    """Names of mechanisms in comparisons, keys and lists, and imports of their insides; prose does not count."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and (found := IMPORTED.match(node.module)):
            yield found[1]
        elif isinstance(node, ast.Constant) and node.value in NAMES:
            yield node.value


def test_no_module_outside_a_mechanism_names_one():
    assert {place: sorted(set(found)) for place, tree in others() if (found := list(named_in(tree)))} == {}


def test_a_name_would_be_seen():
    assert list(named_in(ast.parse('if context.mechanism == "suppress": pass'))) == ["suppress"]
    assert list(named_in(ast.parse("from queryveil.mechanisms.semantic.records import asked"))) == ["semantic"]
