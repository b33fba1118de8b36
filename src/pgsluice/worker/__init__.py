"""Processes and threads that run your code, the one that ticks, and those that wake and are woken."""

from pgsluice.worker.listener import AsyncListener, Listener, ListenerState
from pgsluice.worker.notifier import Notifier
from pgsluice.worker.queue_worker import QueueWorker
from pgsluice.worker.retry import Retry
from pgsluice.worker.subscription import AsyncSubscription, Subscription
from pgsluice.worker.ticker import Ticker

__all__ = [
    "AsyncListener",
    "AsyncSubscription",
    "Listener",
    "ListenerState",
    "Notifier",
    "QueueWorker",
    "Retry",
    "Subscription",
    "Ticker",
]
