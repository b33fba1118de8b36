"""Outcomes: from a handler's result to a settled message, and the log of failures."""
