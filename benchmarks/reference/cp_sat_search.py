"""CP-SAT in a process of its own: OR-Tools and highspy bring different copies of HiGHS and do not load side by side.

Reads an `.npz` from standard input (the rows of a packing program as `indptr`, `indices` and whole `weights` under one
`limit`, a `hint`, `seconds`) and prints JSON: what was chosen, or null, and the bound.
"""

from __future__ import annotations

import io
import itertools
import json
import sys

import numpy as np


def main() -> None:
    from ortools.sat.python import cp_model

    given = np.load(io.BytesIO(sys.stdin.buffer.read()))
    indptr, indices, weights, limit = (given[name] for name in ("indptr", "indices", "weights", "limit"))
    model = cp_model.CpModel()
    take = [model.new_bool_var("") for _ in given["hint"]]
    for start, end in itertools.pairwise(indptr):
        if weights[start:end].sum() > limit:
            columns = [take[j] for j in indices[start:end]]
            model.add(cp_model.LinearExpr.weighted_sum(columns, weights[start:end].tolist()) <= int(limit))
    for variable, chosen in zip(take, given["hint"].tolist(), strict=True):
        model.add_hint(variable, chosen)
    model.maximize(sum(take))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = float(given["seconds"])
    solver.parameters.num_workers = 2
    found = solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    choice = [bool(solver.boolean_value(variable)) for variable in take] if found else None
    print(json.dumps([choice, solver.best_objective_bound]))


if __name__ == "__main__":
    main()
