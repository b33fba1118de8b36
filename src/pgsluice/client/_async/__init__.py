"""The clients, written by hand; `_sync` is generated from here by `make generate`."""
