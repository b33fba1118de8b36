"""Processes and threads that run your code, and the one that ticks."""

from pgsluice.worker.queue_worker import QueueWorker
from pgsluice.worker.retry import Retry
from pgsluice.worker.ticker import Ticker

__all__ = ["QueueWorker", "Retry", "Ticker"]
