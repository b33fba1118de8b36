"""Queue metrics: figures per queue and time window, in gold tables and in a report.

`messages` reads the outcome of each message from the lake and from PostgreSQL; `figures` counts and measures with
Spark; `gold` keeps the figures in tables of the lake; `page` shows them.
"""
