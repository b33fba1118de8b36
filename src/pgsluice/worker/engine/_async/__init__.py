"""Workers, written by hand: change these, then `make generate`."""
