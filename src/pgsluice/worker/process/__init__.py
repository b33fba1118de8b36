"""The process `pgsluice worker run`: start, signals, health, supervisor, shutdown."""
