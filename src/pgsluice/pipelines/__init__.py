"""Pipelines between PostgreSQL and the lake; they need `pip install 'pgsluice[spark]'`.

Each kind is a module with one function of the same name: `events`, `changes`, `archive` and `analytics` write to the
lake, `ingest` and `replay` to PostgreSQL. `config` reads them from a file, `tasks` starts them, `runner` supervises
them. `current_state` and `queue_metrics` belong to `changes` and `analytics`. Nothing is imported here, so that each
module can name its missing packages.
"""
