"""Pipelines from PostgreSQL into the lake with Spark; needs `pip install 'pgsluice[spark]'`.

`pipelines` is the way in for most: an event log, a queue or an archive into a Delta table. `session`
finds Java and starts Spark; `source` and `stream` are Spark's format `pgsluice`; `lake` has the format
`pgsluice-delta`. Nothing is imported here, so that this package can say what is missing.
"""
