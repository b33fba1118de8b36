"""Each SQL function as a `Call`: its text, its parameters and how to read its rows. No I/O here."""

from pgsluice.client.calls.call import Call, Steps

__all__ = ["Call", "Steps"]
