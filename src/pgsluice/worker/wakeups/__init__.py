"""Wake-ups of idle workers: listeners for NOTIFY, and the notifier that sends it."""
