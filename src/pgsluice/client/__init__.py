"""Clients: one Python method per SQL function, sync and async.

A client works on a pool, where each call is a transaction of its own, or on a connection of the caller's, where it
runs in the caller's transaction and never commits.
"""

from pgsluice.client._async.event_log import AsyncEventLog
from pgsluice.client._async.work_queue import AsyncWorkQueue
from pgsluice.client._sync.event_log import EventLog
from pgsluice.client._sync.work_queue import WorkQueue
from pgsluice.client.records import (
    ConsumerInfo,
    Event,
    LogInfo,
    Message,
    NotifyThrottle,
    QueueInfo,
    QueueMetrics,
    RoutingMatch,
    TopicBinding,
)

__all__ = [
    "AsyncEventLog",
    "AsyncWorkQueue",
    "ConsumerInfo",
    "Event",
    "EventLog",
    "LogInfo",
    "Message",
    "NotifyThrottle",
    "QueueInfo",
    "QueueMetrics",
    "RoutingMatch",
    "TopicBinding",
    "WorkQueue",
]
