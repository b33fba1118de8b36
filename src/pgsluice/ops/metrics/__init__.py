"""Metrics of the database in the text format of Prometheus and OpenMetrics, with a dashboard and alert rules."""
