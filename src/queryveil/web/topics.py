"""Topics that people may want to keep out of a release, as places in WordNet's tree of categories.

The first ones follow the special categories of Article 9 of the GDPR and what else hurts when it comes out. A query is
left out when any of its words has any sense at or below one of a topic's paths; what WordNet does not know stays.
"""

from __future__ import annotations

from typing import Final

from queryveil.knowledge.wordnet import NOUN_FILES

SENSITIVE: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "health": (
        "Health, body and medicine",
        (
            "state/condition/physical condition",
            "state/symptom",
            "act/activity/work/care/treatment",
            "person/adult/professional/health professional",
            "artifact/structure/building/medical building",
            "body",
            "artifact/drug",
        ),
    ),
    "mind": ("Mind and mood", ("state/condition/psychological state", "feeling")),
    "sex": (
        "Sex and sexual orientation",
        ("act/sexual activity", "act/activity/Creation/pornography", "person/homosexual", "group/collection/class/sex"),
    ),
    "religion": (
        "Religion and belief",
        (
            "cognition/content/belief",
            "group/social group/organization/institution/religion",
            "artifact/structure/building/place of worship",
            "act/activity/ceremony",
        ),
    ),
    "politics": (
        "Politics and unions",
        (
            "relation/politics",
            "act/activity/occupation/profession/politics",
            "act/group action/vote",
            "group/social group/organization/union",
        ),
    ),
    "origin": ("Origin and ethnic groups", ("group/race", "person/ethnic")),
    "crime": (
        "Crime and violence",
        ("act/activity/wrongdoing", "act/action/change/change of state/termination/killing", "person/killer"),
    ),
    "money": (
        "Debt and money trouble",
        (
            "possession/liabilities",
            "state/obligation/indebtedness",
            "state/condition/financial condition",
            "state/condition/fortune",
        ),
    ),
    "family": (
        "Pregnancy, abortion, divorce",
        (
            "state/condition/physical condition/pregnancy",
            "act/action/change/change of state/termination/abortion",
            "act/group action/separation",
        ),
    ),
}
"""Name: what people call it, and where it lies."""

COARSE: Final = {name: (name, (name,)) for name in sorted(NOUN_FILES) if name != "tops"}
"""Every top-level category, for who wants to leave out more."""
