"""`App`: declares handlers and schedules, and runs them inside another program."""
