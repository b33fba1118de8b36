"""Benchmarks: one question a workload, the same calls on each system, in one server."""
