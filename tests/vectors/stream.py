"""Exact numbers for `stream`: attacks on pools so small that all draws can be listed, distances, published figures.

Paper: Pàmies-Estrems and Garcia-Alfaro, "On the self-adjustment of privacy safeguards for query log streams" (2023).
Computed apart from the package, with fractions. "Guess" is the chance with which the best guess of a released record's
owner is right, "posterior" the chance of each owner given the receiver.
"""

POOLS = [
    {
        "records of each": {"a": 1, "b": 1, "c": 1},
        "k": 2,
        "safe": False,
        "guess": "1/2",
        "posterior": {"a": {"b": "1/2", "c": "1/2"}, "b": {"a": "1/2", "c": "1/2"}, "c": {"a": "1/2", "b": "1/2"}},
    },
    {
        "records of each": {"a": 4, "b": 1, "c": 1},
        "k": 2,
        "safe": False,
        "guess": "4/5",
        "posterior": {
            "a": {"b": "1/2", "c": "1/2"},
            "b": {"a": "10/11", "c": "1/11"},
            "c": {"a": "10/11", "b": "1/11"},
        },
    },
    {
        "records of each": {"a": 4, "b": 1, "c": 1},
        "k": 2,
        "safe": True,
        "guess": "1/3",
        "posterior": {
            "a": {"a": "1/3", "b": "1/3", "c": "1/3"},
            "b": {"a": "1/3", "b": "1/3", "c": "1/3"},
            "c": {"a": "1/3", "b": "1/3", "c": "1/3"},
        },
    },
]
"""The paper's bound of 1/k (its theorem 1 and equation 16): it holds where everybody has one record, fails where one
has four, and holds again where owners are drawn evenly and may receive their own (safe mode)."""
BUSY_USER = [(3, 1, 0.3333333333333333), (3, 3, 0.6), (3, 10, 0.8333333333333334), (10, 10, 0.5263157894736842)]
"""k, how many records one user has among k with one each, and the guess in paper mode: busy / (busy + k), not 1/k."""
SINGLE_OWNER = {"arrivals": "cccbac", "k": 2, "share": "1/20"}
"""Restriction 2 counts users and not owners: in this share of runs a record comes out that only c can have written."""
SCRIPT = [
    ("a", "Sp", "So"),
    ("b", "Sp", "Te"),
    ("a", "Sp", "So"),
    ("c", "Sp", "So"),
    ("d", "He", "Fl"),
    ("e", "Sp", "Te"),
    ("b", "Sp", "So"),
    ("f", "Sp", "So"),
    ("d", "He", "Fl"),
    ("g", "Sp", "Te"),
]
"""Ten records as user, category and category below it, for k = 2 at depth 2."""
RELEASED_OF_SCRIPT = (4, 6)
"""The fewest and the most records of the script that come out, over 400 seeds."""

EARTH_MOVERS = {
    "original": ["Sp/So", "Sp/So", "He/Fl"],
    "anonymised": ["He/Fl", "Sp/Te", "Sp/So"],
    "distance": 2,
    "most": 12,
    "in their order": 10,
}
"""The paper's loss of utility: the least cost of matching one profile to the other along the tree, and the cost through
the root. Matching them as they stand would cost more."""
PUBLISHED_LOSS = {"mean distance": 357.557261, "mean most": 826.509414, "percent": 43.261124}
"""From the figures that the authors published with the paper, k = 3 at depth 1: the percentage is a ratio of means."""
KOLMOGOROV_SMIRNOV = {
    1: (0.09090909090909091, 0.9999999999999999),
    2: (0.18181818181818182, 0.9970968144342757),
    3: (0.2727272727272727, 0.832587690946824),
}
"""Two samples of 11 evenly spaced points, one moved on by so many places: distance and exact p. By 2 it is the paper's
D = 0.18 with p = 0.9971: a test of 11 against 11 points, which rejects nothing below 7/11."""
