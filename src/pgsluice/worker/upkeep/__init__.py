"""Background duties: ticker, schedules, maintenance, and the leader election of the process that runs them."""
