"""Benchmarks: one question per workload, with the same calls on each system, on one server."""
