"""The process of `pgsluice worker run`: startup, signals, health, supervisor, shutdown."""
