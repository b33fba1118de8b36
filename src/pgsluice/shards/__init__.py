"""Several databases that share the keys of messages: the file that names them, and connections to the home of a key."""

from pgsluice.shards.directory import Directory, Shards, ShardState
from pgsluice.shards.pool import ShardPool

__all__ = ["Directory", "ShardPool", "ShardState", "Shards"]
