"""The loop of a worker: lanes claim, run and settle messages concurrently."""
