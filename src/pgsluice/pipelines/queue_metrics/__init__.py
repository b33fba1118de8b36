"""How queues fared: figures per queue and window of time, in gold tables and as a report.

`messages` reads what became of each message, from the lake and from PostgreSQL; `figures` counts and measures with
Spark; `gold` keeps the figures in tables of the lake; `page` shows them.
"""
