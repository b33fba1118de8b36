"""Operation of several databases that share the keys of messages: change their directory, and show their state."""

from typing import TYPE_CHECKING

from pgsluice.lazily import lazily

if TYPE_CHECKING:
    from pgsluice.ops.shards.changing import apply as apply
    from pgsluice.ops.shards.changing import move as move
    from pgsluice.ops.shards.opening import Shard as Shard
    from pgsluice.ops.shards.opening import opened as opened
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
