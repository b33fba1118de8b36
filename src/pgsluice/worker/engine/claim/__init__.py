"""Sources of messages: work queues and share groups, claimed and settled at the server."""
