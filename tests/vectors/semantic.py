"""Exact numbers for `semantic`: what the statements of its paper, and what we say beyond it, come to on small cases.

Paper: Sánchez, Batet, Viejo, Rodríguez-García and Castellà-Roca, "A semantic-preserving differentially private method
for releasing query logs" (2018). All were computed apart from the package, with fractions and brute force. The toy
taxonomy is R above H (above flu and asthma) and S (above tennis); laws list its concepts in the order R, H, S, flu,
asthma, tennis, and are those of ε = 2.
"""

SIMILARITY = {
    "H": {
        "H": 1.0,
        "R": 0.4150374992788438,
        "S": 0.2630344058337938,
        "asthma": 0.5849625007211563,
        "flu": 0.5849625007211563,
        "tennis": 0.19264507794239594,
    },
    "R": {
        "H": 0.4150374992788438,
        "R": 1.0,
        "S": 0.4150374992788438,
        "asthma": 0.2630344058337938,
        "flu": 0.2630344058337938,
        "tennis": 0.2630344058337938,
    },
    "S": {
        "H": 0.2630344058337938,
        "R": 0.4150374992788438,
        "S": 1.0,
        "asthma": 0.19264507794239594,
        "flu": 0.19264507794239594,
        "tennis": 0.5849625007211563,
    },
    "asthma": {
        "H": 0.5849625007211563,
        "R": 0.2630344058337938,
        "S": 0.19264507794239594,
        "asthma": 1.0,
        "flu": 0.4150374992788438,
        "tennis": 0.15200309344504992,
    },
    "flu": {
        "H": 0.5849625007211563,
        "R": 0.2630344058337938,
        "S": 0.19264507794239594,
        "asthma": 0.4150374992788438,
        "flu": 1.0,
        "tennis": 0.15200309344504992,
    },
    "tennis": {
        "H": 0.19264507794239594,
        "R": 0.2630344058337938,
        "S": 0.5849625007211563,
        "asthma": 0.15200309344504992,
        "flu": 0.15200309344504992,
        "tennis": 1.0,
    },
}
"""Equation 5, 1 − log2(1 + share of subsumers that differ), for every pair; a concept counts as its own subsumer."""
LEAST_SIMILARITY = 0.15200309344504992
"""Over all pairs of the toy."""
SENSITIVITY_OF_SQC1 = 0.8479969065549501
"""Of equation 3: 1 less the least similarity."""

FLU = {
    "sqc1": [
        0.12754495804653956,
        0.18643869777981478,
        0.11738537539367844,
        0.30415434474377995,
        0.15258449366197918,
        0.11189213037420798,
    ],
    "sqc2": [
        0.11077100677741669,
        0.19882550268295734,
        0.11077100677741669,
        0.30110681484316554,
        0.16775466214162693,
        0.11077100677741669,
    ],
    "nsqc": [
        0.12956251432964971,
        0.12956251432964971,
        0.12956251432964971,
        0.3521874283517515,
        0.12956251432964971,
        0.12956251432964971,
    ],
}
"""What flu becomes: by equation 3, by equations 6 and 7 (topics H and S), by equation 12."""
R_BY_SQC1 = [
    0.3066201205257231,
    0.1538214944008268,
    0.1538214944008268,
    0.12857896355754106,
    0.12857896355754106,
    0.12857896355754106,
]
"""What the root becomes by equation 3."""
EXPECTED_SIMILARITY_OF_FLU = {"sqc1": 0.5497126553043694, "sqc2": 0.5543503644472494, "nsqc": 0.5604828253005066}
"""Of flu to what it becomes, under each of those laws."""
LEAST_SIMILARITY_IN_H = 0.2630344058337938
"""Equation 8: H, flu and asthma are a taxonomy of their own, with a least similarity of its own."""
FLU_IN_H = [0.24842942015198388, 0.5494421198438192, 0.20212846000419685]
"""What flu becomes in that taxonomy, in the order H, flu, asthma."""

FLU_WITHOUT_FACTOR_2 = [
    0.08423710776262,
    0.1799902492198714,
    0.07135178510123363,
    0.47903241907264704,
    0.12055845072891153,
    0.06482998811471644,
]
"""Wrong: equation 3 without the 2 under the exponent."""
FLU_WITH_SENSITIVITY_1 = [
    0.13403970035951343,
    0.18494604285579133,
    0.12492914036908993,
    0.2800873787853793,
    0.15604417197514542,
    0.11995356565508035,
]
"""Wrong: equation 3 with 1 in the place of the sensitivity."""
FLU_BY_PERMUTE_AND_FLIP = {
    "sqc1": [
        0.11658539215369523,
        0.18058749774833222,
        0.106328962435945,
        0.35285174512772133,
        0.1427801830626999,
        0.10086621947160626,
    ],
    "sqc2": [
        0.09967114451600675,
        0.1950597873046858,
        0.09967114451600675,
        0.346715258833519,
        0.15921152031377478,
        0.09967114451600675,
    ],
}
"""Another law: permute-and-flip with the same scores, by all 720 orders."""

LOSS_AT_2 = {"sqc1": 1.0655151979668211, "sqc2": 1.1872963455987873, "nsqc": 1.0}
"""The exact worst log-ratio of two rows of the printed laws: what ε = 2 really costs."""
PRINTED_EPSILON_FOR_2 = {"sqc1": 3.855441744633198, "sqc2": 3.4335259637293407, "nsqc": 4.0}
"""The ε in the printed formula at which the exact loss is 2."""

EPSILON_OF_A_RESPONSE = {19: 0.4880459666302432, 606: 1.4443118546406948, 39914: 3.334160343431755}
"""Beyond the paper: the ε of each of 100 randomised responses over so many concepts that are together (10, 1e-6)-DP, by
convolution of the exact privacy loss."""

DIVERGENCE = {"one": [3, 1, 10, 5], "other": [5, 3, 6, 5], "value": 0.04864398505169236}
"""Equations 9 and 10, base 2: the Jensen-Shannon divergence of two profiles with these counts."""

MAPPING = {
    "query": "stores offering the new Apple phones",
    "phrases": ["stores", "the new Apple phones"],
    "concepts": ["store", "apple phone"],
    "stems looked up for the second": ["new appl phone", "appl phone"],
    "stripped from the second": ["new"],
    "with a store and a Huawei tablet": "stores offering the new Huawei tablets",
}
"""The example of the paper's section on mapping, in a taxonomy that knows stores, Apple phones and Huawei tablets. The
last is the inverse mapping, which copies stop words and the plural from the input."""

CONCEPTS_WITHOUT_INSTANCES = {
    2137: 38669,
    14070360: 606,
    5999797: 435,
    7288639: 255,
    523513: 177,
}
"""Nouns of WordNet 3.0 under the paper's domains, by the offset of their root, without instances: abstraction, disease,
scientific discipline, social event, sport."""
