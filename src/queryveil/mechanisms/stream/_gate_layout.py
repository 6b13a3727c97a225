"""Where each number of the window over texts lies: the fields of its flat arrays."""

from __future__ import annotations

NONE = -1

# A record in the ring: 2^RING_ROW fields.
RING_ROW = 3
W_TEXT = 0
W_USER = 1
W_CATEGORY = 2
W_HANDLE = 3  # NONE once it entered the tree
W_NEXT = 4  # the next waiting record of the same text
RING_FIELDS = 5

# A text: 2^TEXT_ROW fields.
TEXT_ROW = 2
X_USERS = 0  # distinct users in the window
X_RECORDS = 1
X_HEAD = 2
X_TAIL = 3

# Counters.
P_START = 0
P_COUNT = 1
P_TEXT_FREE = 2
P_TEXT_TOP = 3
P_PAIRS = 4
P_TEXTS = 5
P_WAITING = 6
P_ENTERED = 7
P_EXPIRED = 8
COUNTERS = 9

# What enters the tree, one column each.
IN_HANDLE = 0
IN_USER = 1
IN_CATEGORY = 2
IN_ARRIVAL = 3
IN_COLUMNS = 4
