"""The engine of a worker: claim messages, run handlers, settle, renew leases."""
