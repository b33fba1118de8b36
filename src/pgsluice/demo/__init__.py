"""The demonstration: real work through every part of pgsluice, checked to the last row.

`run` is the order of things; `workspace` and `database` are what survives a crash; `load`, `consume` and
`lake` do the work; `reconcile` compares; `measure`, `plots` and `report` show it. The SQL stands in `sql/`.
"""
