"""What comes in: the query log, the formats it is read from and written to, and synthetic logs."""

from queryveil.log.problems import Problem, ReadReport
from queryveil.log.query_log import COLUMNS, QueryLog
from queryveil.log.reading import read, read_with_report, sniff
from queryveil.log.writing import write

__all__ = ["COLUMNS", "Problem", "QueryLog", "ReadReport", "read", "read_with_report", "sniff", "write"]
