"""Each SQL function as a `Call`: its text, its parameters and how to read its rows. No I/O here.

The clients are generated from these; clients.py says how.
"""

from pgsluice.client.calls.call import Call, Steps

__all__ = ["Call", "Steps"]
