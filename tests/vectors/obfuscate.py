"""Exact numbers for `obfuscate` and the measures of its paper, on cases that can be integrated or counted.

Paper: Faggioli and Ferro, "Query Obfuscation for Information Retrieval through Differential Privacy" (2024). Computed
apart from the package, by integration and by listing outcomes.
"""

LAW_ON_THE_LINE = {
    0.5: {
        "cmp": [
            [0.6105996084642975, 0.20546067094998133, 0.18393972058572117],
            [0.38940039153570244, 0.30733427860798085, 0.3032653298563167],
            [0.14325239843009505, 0.16001293142622167, 0.6967346701436833],
        ],
        "vickrey": [
            [0.3355490257526842, 0.5385646491418076, 0.12588632510550815],
            [0.2589381063039554, 0.533510431749724, 0.20755146194632065],
            [0.10002158124694532, 0.4941113763292839, 0.40586704242377086],
        ],
    },
    1.0: {
        "cmp": [
            [0.6967346701436833, 0.2355976882380103, 0.0676676416183064],
            [0.3032653298563167, 0.5127949495579621, 0.18393972058572117],
            [0.0410424993119494, 0.14289722127377177, 0.8160602794142788],
        ],
        "vickrey": [
            [0.4443239129538061, 0.49269520764651387, 0.06298087939968001],
            [0.3005943924732457, 0.5282058275142335, 0.17119978001252087],
            [0.04781254601056898, 0.41776500501755337, 0.5344224489718776],
        ],
    },
    4.0: {
        "cmp": [
            [0.9323323583816936, 0.0674999103043552, 0.00016773131395120267],
            [0.06766764161830635, 0.9231745389373265, 0.00915781944436711],
            [2.2699964881242427e-05, 0.009135119479485847, 0.9908421805556329],
        ],
        "vickrey": [
            [0.6678498560242241, 0.3314477766245429, 0.0007023673512330518],
            [0.294014437393593, 0.6676376045854031, 0.03834795802100395],
            [0.0004921274711589252, 0.23071965016483778, 0.7687882223640032],
        ],
    },
}
"""Three words at 0, 1 and 3 in one dimension, by ε: what each becomes by CMP, and by Vickrey with t = 0.75 upon it."""
RATIOS_OF_A_CELL = {"bound": 1.2505791921887124, "paper": 1.223509985072632, "released program": 6.707645102050973}
"""Mahalanobis noise with Σ = diag(1.8, 0.2) at ε = 1: the bound of metric privacy for words at (0, 0) and (0, 0.1), and
the ratio of their chances to fall into a small cell, by the paper's density and by that of the authors' program."""
COMPOSITION = {
    "epsilon": 10,
    "distance": 6.0,
    "words": 3,
    "queries": 20,
    "log-ratio": 3600.0,
    "radius for ln 2": 0.06931471805599453,
}
"""Metric privacy adds up over words and queries: the bound for the paper's 20 queries, and how near a word must be for
one answer to leave odds within a factor of 2."""

EXPECTED_JACCARD = {(3, 0.5): 0.3875, (2, 0.3): 0.22999999999999998, (6, 0.3): 0.1918558636363636}
"""Words of a query and the chance to keep each: the mean of the paper's lexical similarity, on sets of words."""
JACCARD = {"query": "a b c", "other": "a x c", "value": 0.5}
"""The similarity itself: two of four words are in both."""
POOLED_RECALL = {
    "relevant": {"q1": ["d1", "d2"], "q2": ["d3"]},
    "pooled": {"q1": ["d1", "x"], "q2": ["y"]},
    "value": 0.25,
}
"""Mean share of the relevant documents that are in the pool. The authors' program leaves out queries that found none,
and gets 0.5."""
