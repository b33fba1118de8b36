"""Workloads, one question each."""
