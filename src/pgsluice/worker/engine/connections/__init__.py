"""Connection pools of a worker, and lost sessions."""
