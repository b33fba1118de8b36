"""Handler calls: in the event loop, a thread or a process, with their contexts."""
