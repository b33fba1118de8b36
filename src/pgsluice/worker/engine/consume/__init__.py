"""Consumers of event logs: tick batches, in order."""
