"""Where each number of the tree and of the window over texts lies: the fields of their flat arrays.

The tree: vertices, nodes, tokens and records are rows of fixed width in one int32 array each, so that one row is one
cache line or less. A *vertex* is a category with something waiting in it or below it; the others are only a number. A
*token* is one user waiting in U[v]; a *record* is one query waiting in Q[v]. A *node* stands for one user at one vertex
or anywhere below it, and hangs under the same user's node at the parent vertex: a user's nodes form a small copy of the
tree, by which the distinct users of every branch are kept up to date.
"""

from __future__ import annotations

NONE = -1
ROOT = 0

ROW = 4
"""Vertices and nodes have 2^ROW fields."""

# A category: 2^CATEGORY_ROW fields. Only a category in use has a vertex.
CATEGORY_ROW = 1
G_PARENT = 0
G_VERTEX = 1

# A vertex. A slab of 2^class numbers holds U[v] in its first half and Q[v] in its second; a set holds nodes.
V_PARENT = 0
V_CATEGORY = 1
V_USERS_AT = 2  # the nodes of users with a token in the branch: place, count, class
V_USERS = 3
V_USERS_CLASS = 4
V_OWNERS_AT = 5  # the nodes of owners of a waiting record in the branch
V_OWNERS = 6
V_OWNERS_CLASS = 7
V_SLAB = 8
V_SLAB_CLASS = 9
V_TOKENS = 10  # |U[v]|
V_RECORDS = 11  # |Q[v]|
V_OWN_USERS = 12  # distinct users in U[v] itself
V_OWN_OWNERS = 13  # distinct owners in Q[v] itself

# A node.
N_VERTEX = 0
N_USER = 1
N_PARENT = 2
N_CHILD = 3
N_NEXT = 4
N_PREVIOUS = 5
N_USER_PLACE = 6  # where this node stands in its vertex's set of users
N_TOKENS = 7  # tokens of the user at this very vertex
N_TOKEN_VERTICES = 8  # vertices, here and below, that hold a token of the user
N_TOP_TOKEN = 9
N_OWNER_PLACE = 10  # the same four for waiting records
N_RECORDS = 11
N_RECORD_VERTICES = 12
N_TOP_RECORD = 13
N_QUEUE_HEAD = 14  # records of this user at this vertex beyond the cap
N_QUEUE_TAIL = 15

# A token: 2^TOKEN_ROW fields.
TOKEN_ROW = 2
T_NODE = 0
T_PLACE = 1
T_NEXT = 2

# A record: 2^RECORD_ROW fields.
RECORD_ROW = 3
R_OWNER = 0
R_HANDLE = 1
R_NODE = 2
R_PLACE = 3
R_NEXT = 4
R_CATEGORY = 5

# Counters and free lists.
C_NODE_FREE = 0
C_NODE_TOP = 1
C_TOKEN_FREE = 2
C_TOKEN_TOP = 3
C_RECORD_FREE = 4
C_RECORD_TOP = 5
C_ARENA_TOP = 6
C_TABLE_USED = 7
C_LARGEST_SLAB = 8
C_LARGEST_SET = 9
C_PENDING = 10
C_EMITTED = 11
C_WORD = 12
C_CATEGORIES = 13
C_VERTEX_FREE = 14
C_VERTEX_TOP = 15
C_TABLE_MASK = 16
COUNTERS = 17
CLASSES = 31

# Rules, as one array of whole numbers.
RULE_K = 0
RULE_BRANCHES = 1  # the self-adjusting step; without it the predecessor
RULE_EXCLUDE_OWNER = 2  # Restriction 1
RULE_DISTINCT = 3  # owner and receiver uniform over distinct people, both gates, instead of over entries
RULE_CAP = 4  # waiting records a user may have at one vertex; 0: no cap
RULE_STRICT = 5  # owners counted at the query's own vertex
RULE_MOST = 6  # emissions from the arrival's own vertex

# What an emission tells, one column each.
OUT_HANDLE = 0
OUT_OWNER = 1
OUT_RECEIVER = 2
OUT_DEPTH = 3  # of the released category
OUT_POOL_USERS = 4  # distinct users in the pool before the pop
OUT_POOL_OWNERS = 5
OUT_RECORDS = 6  # |Q[v]| of the query's vertex before the pop
OUT_ARRIVAL = 7  # which record of the batch brought it out
OUT_COLUMNS = 8

# The window over texts.

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
GATE_COUNTERS = 9

# What enters the tree, one column each.
IN_HANDLE = 0
IN_USER = 1
IN_CATEGORY = 2
IN_ARRIVAL = 3
IN_COLUMNS = 4
