"""Exact numbers for `microaggregate`: five users and a small directory, as the algorithms of its paper see them.

Paper: Erola, Castellà-Roca, Navarro-Arribas and Torra, "Semantic microaggregation for the anonymization of query logs
using the open directory project" (2011). Computed apart from the package, by hand and with fractions, at two levels.
"""

DIRECTORY = {
    "aspirin": ["Health:Pharmacy"],
    "barcelona": ["Sports:Soccer", "Regional:Europe"],
    "flu": ["Health:Conditions"],
    "linux": ["Computers:Software"],
    "messi": ["Sports:Soccer"],
    "nba": ["Sports:Basketball"],
    "python": ["Computers:Programming", "Science:Biology"],
    "snake": ["Science:Biology"],
    "zzyzx": [],
}
"""The toy directory: each term's categories, best first."""
QUERIES = {
    "u1": ["barcelona", "messi", "messi"],
    "u2": ["barcelona messi", "nba"],
    "u3": ["flu", "aspirin", "flu"],
    "u4": ["flu", "python"],
    "u5": ["linux", "python", "snake", "zzyzx"],
}
"""What the five users asked."""
BY_CATEGORIES = {
    1: {
        "classification": [
            {
                "u1": {"Sports": 3},
                "u2": {"Sports": 3},
                "u3": {"Health": 3},
                "u4": {"Computers": 1, "Health": 1},
                "u5": {"Computers": 2, "Science": 1},
            },
            {
                "u1": {"Sports:Soccer": 3},
                "u2": {"Sports:Basketball": 1, "Sports:Soccer": 2},
                "u3": {"Health:Conditions": 2, "Health:Pharmacy": 1},
                "u4": {"Computers:Programming": 1, "Health:Conditions": 1},
                "u5": {"Computers:Programming": 1, "Computers:Software": 1, "Science:Biology": 1},
            },
        ],
        "incidence": [[6, 5, 0, 0, 0], [5, 6, 0, 0, 0], [0, 0, 6, 2, 0], [0, 0, 2, 4, 2], [0, 0, 0, 2, 6]],
        "by k": {
            2: {
                "groups": [["u1", "u2"], ["u3", "u4"]],
                "left over": ["u5"],
                "joined": [["u1", "u2"], ["u3", "u4", "u5"]],
            },
            3: {"groups": [["u1", "u2", "u3"]], "left over": ["u4", "u5"], "joined": [["u1", "u2", "u3", "u4", "u5"]]},
        },
    },
    5: {
        "classification": [
            {
                "u1": {"Regional": 1, "Sports": 3},
                "u2": {"Regional": 1, "Sports": 3},
                "u3": {"Health": 3},
                "u4": {"Computers": 1, "Health": 1, "Science": 1},
                "u5": {"Computers": 2, "Science": 2},
            },
            {
                "u1": {"Regional:Europe": 1, "Sports:Soccer": 3},
                "u2": {"Regional:Europe": 1, "Sports:Basketball": 1, "Sports:Soccer": 2},
                "u3": {"Health:Conditions": 2, "Health:Pharmacy": 1},
                "u4": {"Computers:Programming": 1, "Health:Conditions": 1, "Science:Biology": 1},
                "u5": {"Computers:Programming": 1, "Computers:Software": 1, "Science:Biology": 2},
            },
        ],
        "incidence": [[8, 7, 0, 0, 0], [7, 8, 0, 0, 0], [0, 0, 6, 2, 0], [0, 0, 2, 6, 4], [0, 0, 0, 4, 8]],
        "by k": {
            2: {
                "groups": [["u1", "u2"], ["u4", "u5"]],
                "left over": ["u3"],
                "joined": [["u1", "u2"], ["u4", "u5", "u3"]],
            },
            3: {"groups": [["u1", "u2", "u3"]], "left over": ["u4", "u5"], "joined": [["u1", "u2", "u3", "u4", "u5"]]},
        },
    },
}
"""By the number of categories per term (the paper tries 1 and 5): algorithm 1's count of each user's categories at each
level, algorithm 2's similarity of users, and by k the groups of algorithms 3 and 4, who is left over, and the groups
when those join the most similar one. With 5 categories other users are grouped than with 1."""
LARGEST_SIMILARITY = 6
"""With one category: on the diagonal, where algorithm 4 as printed would pick it."""
CONTRIBUTIONS = [
    {"records": 3, "of": 5, "members": 2, "contribution": "3/5", "quota": "3/2", "added": "9/5"},
    {"records": 2, "of": 5, "members": 2, "contribution": "2/5", "quota": "1", "added": "4/5"},
    {"records": 5, "of": 100, "members": 3, "contribution": "1/20", "quota": "5/3", "added": "1/4"},
]
"""Algorithm 5, for somebody with so many of a group's records: the share of them, the quota, and how many records are
added on average when the list is gone through once. Those with few records fall short of their quota."""
