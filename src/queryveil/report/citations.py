"""Whom to cite for a release: the paper behind its mechanism, and this program.

>>> print(bibtex("suppress").splitlines()[0])
@misc{queryveil,
"""

from __future__ import annotations

from queryveil.version import __version__

PAPERS = {
    "suppress": """@inproceedings{adar2007user,
  author    = {Eytan Adar},
  title     = {User 4XXXXX9: Anonymizing Query Logs},
  booktitle = {Query Log Analysis Workshop at the International World Wide Web Conference},
  year      = {2007}
}""",
    "microaggregate": """@article{erola2011semantic,
  author  = {Arnau Erola and Jordi Castell{\\`a}-Roca and Guillermo Navarro-Arribas and Vicen{\\c{c}} Torra},
  title   = {Semantic microaggregation for the anonymization of query logs using the open directory project},
  journal = {SORT: Statistics and Operations Research Transactions},
  year    = {2011}
}""",
    "sanitize": """@inproceedings{hong2012differentially,
  author    = {Yuan Hong and Jaideep Vaidya and Haibing Lu and Mingrui Wu},
  title     = {Differentially Private Search Log Sanitization with Optimal Output Utility},
  booktitle = {International Conference on Extending Database Technology (EDBT)},
  year      = {2012}
}""",
    "semantic": """@article{sanchez2018semantic,
  author  = {David S{\\'a}nchez and Montserrat Batet and Alexandre Viejo and
             Mercedes Rodr{\\'\\i}guez-Garc{\\'\\i}a and Jordi Castell{\\`a}-Roca},
  title   = {A semantic-preserving differentially private method for releasing query logs},
  journal = {Information Sciences},
  year    = {2018}
}""",
    "stream": """@article{pamies2023self,
  author  = {David P{\\`a}mies-Estrems and Joaquin Garcia-Alfaro},
  title   = {On the self-adjustment of privacy safeguards for query log streams},
  journal = {Computers \\& Security},
  volume  = {134},
  pages   = {103450},
  year    = {2023},
  doi     = {10.1016/j.cose.2023.103450}
}""",
    "obfuscate": """@inproceedings{faggioli2024query,
  author    = {Guglielmo Faggioli and Nicola Ferro},
  title     = {Query Obfuscation for Information Retrieval through Differential Privacy},
  booktitle = {European Conference on Information Retrieval (ECIR)},
  year      = {2024}
}""",
}
"""What a third party's mechanism is based on, we do not know."""


def bibtex(*mechanisms: str) -> str:
    """The program and the papers behind these mechanisms, as BibTeX."""
    program = f"""@misc{{queryveil,
  title = {{QueryVeil: publish, keep and send search queries without giving away who searched for what}},
  note  = {{Version {__version__}}}
}}"""
    return "\n\n".join([program, *(PAPERS[name] for name in dict.fromkeys(mechanisms) if name in PAPERS)]) + "\n"
