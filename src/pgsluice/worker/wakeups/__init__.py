"""How waiting workers learn of messages: LISTEN, and the notifier that sends NOTIFY."""
