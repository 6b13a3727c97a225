"""User Behavior Insights where it is kept: `opensearch:https://host:9200?queries=ubi_queries&events=ubi_events`.

The documents are those of the format `ubi` (`formats/ubi.py`) and mean the same; only the fields that are read leave
the server. They are read by a scroll, which OpenSearch and Elasticsearch have alike and which shows an index as it was
at one moment. They are sorted, since an index has no order: where two queries of a user have one id, which of them
counts is not for the server to decide. A problem's line is the document's place in that order.

A copy goes into new indices, of names that follow from its documents, and is seen once both got their aliases, the
names that were asked for, in one step. Cut off before that, nothing is seen, and a second try goes on with the same
indices: a document's id follows from its place. Fields have fixed types; guessed from the first document, they could
turn others away.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Final

import msgspec
import polars as pl

from queryveil.errors import EngineError, FormatError, UsageError
from queryveil.log.databases._search_api import SearchApi
from queryveil.log.databases.address import Address
from queryveil.log.formats import Declared, Findings, ubi
from queryveil.log.query_log import COLUMNS, QueryLog
from queryveil.log.shown import SHOWN
from queryveil.log.source import Block, checked_block

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,199}")
_KEYWORD: Final = {"type": "keyword", "ignore_above": 8191}
_DETAILS: Final = {
    "object": {"properties": {"object_id": _KEYWORD}},
    "position": {"properties": {"ordinal": {"type": "long"}}},
}
_MAPPINGS: Final = {
    "dynamic": False,
    "properties": {
        **dict.fromkeys(("query_id", "client_id", "session_id", "action_name", ubi.HITS), _KEYWORD),
        "user_query": {"type": "text", "fields": {"keyword": _KEYWORD}},
        "timestamp": {"type": "date"},
        "event_attributes": {"properties": _DETAILS},
    },
}


class OpenSearch:
    """The two indices, or aliases, of one cluster."""

    kind: ClassVar[str] = "opensearch"
    file_format: ClassVar[str] = "ubi"
    columns_are_fixed: ClassVar[bool] = True

    def __init__(self, address: Address) -> None:
        address.only(("queries", "events"))
        self._names = {kind: address.options.get(kind.removeprefix("ubi_"), kind) for kind in (ubi.QUERIES, ubi.EVENTS)}
        if not all(map(_NAME.fullmatch, self._names.values())) or len(set(self._names.values())) < len(self._names):
            raise UsageError(
                f"{address.kind}: queries and events name two indices, in small letters, such as ubi_queries."
            )
        self._kind, self._url = address.kind, address.place

    @property
    def title(self) -> str:
        """The index of queries."""
        return self._names[ubi.QUERIES]

    def read(self, found: Findings, declared: Declared) -> pl.DataFrame:
        """Every query with its clicks, as from files."""
        api = SearchApi(self._kind, self._url)
        fields = [declared.user_field, "action_name", "query_id", "session_id", "timestamp", "user_query"]
        fields += ["event_attributes.object.object_id", "event_attributes.position.ordinal"]
        fields += [ubi.HITS] if SHOWN in declared.extras else []
        for name in self._names.values():
            if not api.is_there(name):
                raise UsageError(f"{self._kind}: there is no index {name}.")
        lines = {name: b"\n".join(sorted(api.documents(name, fields))) for name in self._names.values()}
        api.close()

        def blocks(name: str, first: int) -> Iterator[Block]:
            if lines[name]:
                yield checked_block(first, lines.pop(name))

        return ubi.records([(name, partial(blocks, name)) for name in lines], found, declared)

    def columns(self) -> list[str]:
        """Of documents only the fields of a log are read, whatever else stands in them."""
        return list(COLUMNS)

    def check_free(self) -> None:
        """Neither name may be taken."""
        self._require_free(SearchApi(self._kind, self._url))

    def _require_free(self, api: SearchApi) -> None:
        for name in self._names.values():
            if api.is_there(name):
                raise UsageError(f"{name} is there already; a copy never overwrites anything. Choose other names.")

    def refuse_what_is_lost(self, log: QueryLog) -> None:
        """As the format refuses it."""
        ubi.refuse_what_ubi_loses(log)

    def write(self, log: QueryLog) -> None:
        """Both indices, then both aliases in one step."""
        api = SearchApi(self._kind, self._url)
        whole, counts = hashlib.sha256(), Counter[str]()
        for kind, _, line in _documents(log):
            whole.update(line)
            counts[kind] += 1
        indices = {kind: f"{name}-{whole.hexdigest()[:16]}" for kind, name in self._names.items()}
        for kind, index in indices.items():
            status, content = api.ask("PUT", f"/{index}", {"mappings": _MAPPINGS})
            if status >= 300 and not api.is_there(index):
                raise api.refusal(status, content)
            api.put_documents(index, ((name, line) for of, name, line in _documents(log) if of == kind))
        for kind, index in indices.items():
            api.must("POST", f"/{index}/_refresh", shape=dict)
            if (there := api.must("GET", f"/{index}/_count", shape=dict)["count"]) != counts[kind]:
                raise EngineError(f"{self._kind}: {index} holds {there:,} documents in place of {counts[kind]:,}.")
        self._require_free(api)
        aliases = [{"index": index, "alias": self._names[kind]} for kind, index in indices.items()]
        api.must("POST", "/_aliases", {"actions": [{"add": each} for each in aliases]}, shape=dict)
        for alias in aliases:
            if list(api.must("GET", f"/_alias/{alias['alias']}", shape=dict)) != [alias["index"]]:
                api.must("POST", "/_aliases", {"actions": [{"remove": one} for one in aliases]}, shape=dict)
                raise FormatError(f"somebody else made {alias['alias']} meanwhile. Choose other names.")
        api.close()


def _documents(log: QueryLog) -> Iterator[tuple[str, str, bytes]]:
    """Kind, id and content of each."""
    encode = msgspec.json.Encoder().encode
    for kind, content in ubi.documents(log):
        yield kind, str(content["query_id"]), encode(content)
