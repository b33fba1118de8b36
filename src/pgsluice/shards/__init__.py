"""Several databases that share the keys of messages: the file that names them, and the home of a key."""

from pgsluice.shards.directory import Directory, Shards

__all__ = ["Directory", "Shards"]
