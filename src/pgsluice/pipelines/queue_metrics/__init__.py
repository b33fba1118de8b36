"""Queue metrics by queue and time window, in gold tables and an HTML report.

`messages` reads the outcome of each message from the lake and from PostgreSQL; `figures` aggregates them with
Spark; `gold` stores the metrics in tables of the lake; `page` renders them.
"""
