"""The demo: a real workload through all of pgsluice, reconciled row by row.

`run` is the sequence of steps; `workspace` and `database` hold the state that survives a crash; `load`, `consume` and
`lake` do the work; `reconcile` compares; `measure`, `plots` and `report` present it. The SQL is in `sql/`.
"""
