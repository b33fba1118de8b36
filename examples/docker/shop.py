"""The handlers that the worker runs."""

from __future__ import annotations

from pgsluice.worker import App

app = App(name="shop")


@app.handler("orders")
async def place(order: dict[str, object]) -> None:
    """Place an order."""
    print(f"placed {order}")
