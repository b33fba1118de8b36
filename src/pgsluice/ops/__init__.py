"""Monitoring and diagnosis of queues, logs and workers."""
