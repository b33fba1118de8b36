"""Each SQL function as a `Call`: statement, parameters and row reader. No I/O.

The clients are generated from these functions; see clients.py.
"""

from pgsluice.client.calls.call import Call, Steps

__all__ = ["Call", "Steps"]
