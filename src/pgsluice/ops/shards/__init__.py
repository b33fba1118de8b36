"""Operation of several databases that share the keys of messages: change their directory, and show their state."""

from pgsluice.ops.shards.changing import apply, move
from pgsluice.ops.shards.opening import Shard, opened

__all__ = ["Shard", "apply", "move", "opened"]
