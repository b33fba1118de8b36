"""`App`: its handlers and schedules, and how a program runs them."""
