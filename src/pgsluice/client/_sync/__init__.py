# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The clients, generated from `client/calls`."""
