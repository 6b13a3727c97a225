"""Exact numbers for `sanitize`: what the programs of its paper come to on two small logs, and what its table 4 says.

Paper: Hong, Vaidya, Lu and Wu, "Differentially Private Search Log Sanitization with Optimal Output Utility" (2012).
Computed apart from the package, by exact solvers and by hand. b is the right side of every constraint, the smaller of
ε and ln 1/(1 − δ).
"""

FIGURE_1 = [[2, 3, 15, 0, 0], [0, 0, 7, 0, 2], [0, 1, 17, 1, 5]]
"""The paper's figure 1: clicks of users 081, 082 and 083 on five pairs, two of which only one user has."""
LARGEST_OF_FIGURE_1 = {
    "ln 2": {"x": [0.09221854941184858, 1.1643584452074447, 0.0], "cap": 2.0794415416798357},
    "3": {"x": [0.39912973174334343, 5.039442464153892, 0.0], "cap": 9.0},
    "17.5": {"x": [2.328256768502837, 29.39674770756437, 0.0], "cap": 52.5},
}
"""O-UMP's linear program at three b: the counts of the pairs that are left, and users · b, which no sum exceeds."""

EXAMPLE_E = [[4, 1, 6], [3, 1, 6], [3, 1, 6], [2, 1, 6]]
"""Clicks of four users on three pairs, for what follows."""
WEIGHTS_OF_E = [
    [0.4054651081081644, 0.28768207245178085, 0.28768207245178085],
    [0.28768207245178085, 0.28768207245178085, 0.28768207245178085],
    [0.28768207245178085, 0.28768207245178085, 0.28768207245178085],
    [0.1823215567939546, 0.28768207245178085, 0.28768207245178085],
]
"""ln t of the paper's constraints: ln of all clicks on a pair over those of the other users."""
SIZE_OF_E = {"ln 2": (2.4094208396532095, 2), "0.9": (3.1284535471039874, 3)}
"""O-UMP at two b: the value of the linear program, and the largest whole one."""
LEAST_B_FOR_SIZE_2_OF_E = 0.5753641449035617
"""The dual: the least b at which the linear program reaches 2."""
ELIMINATION_IN_E = {
    0.6: {"kept as printed": 2, "removed as printed": [0], "kept when it checks first": 2},
    0.9: {"kept as printed": 2, "removed as printed": [0], "kept when it checks first": 2},
    1.2: {"kept as printed": 2, "removed as printed": [0], "kept when it checks first": 3},
}
"""The heuristic SPE for D-UMP, by b: as printed it removes a pair before it looks whether anything is broken."""
ELIMINATION_GAP = {
    "weights": [[0.9, 0.0, 0.0, 0.0], [0.0, 0.4, 0.4, 0.4]],
    "b": 1.0,
    "kept as printed": 2,
    "kept when corrected": 3,
}
"""SPE as printed also removes pairs of users whose constraint holds; choosing among broken ones finds the optimum."""

TABLE_4 = [
    (1.001, 0.0001, 0.00010000500033335834, 3759),
    (1.001, 0.001, 0.0009995003330834232, 4007),
    (1.01, 0.01, 0.009950330853168092, 4879),
    (1.1, 0.1, 0.09531017980432493, 8382),
    (1.4, 0.2, 0.22314355131420976, 10445),
    (1.4, 0.5, 0.3364722366212129, 11419),
    (1.7, 0.5, 0.5306282510621704, 12438),
    (2.0, 0.5, 0.6931471805599453, 13088),
    (2.3, 0.8, 0.8329091229351039, 13901),
]
"""The paper's table 4: e^ε, δ, the b they give, and the output size it prints for 1,980 users. Weights of a pair sum up
to at least 1, so no size can exceed 1,980 · b; all printed ones do."""
