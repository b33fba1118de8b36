"""Declaration of handlers, payload types, retry policies and sending."""
