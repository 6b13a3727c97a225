"""What comes in: the query log, the formats it is read from and written to, and synthetic logs."""

from queryveil.log.query_log import COLUMNS, QueryLog

__all__ = ["COLUMNS", "QueryLog"]
