"""Pipelines between PostgreSQL and the lake; they need `pip install 'pgsluice[spark]'`.

Each kind is a module with one function of the same name: `events`, `changes`, `archive` and `analytics` write into the
lake, `ingest` and `replay` into PostgreSQL. `config` reads them from a file, `tasks` starts them, `runner` keeps them
running. `current_state` and `queue_metrics` are the parts of `changes` and `analytics`. Nothing is imported here, so
that each module can say what is missing.
"""
