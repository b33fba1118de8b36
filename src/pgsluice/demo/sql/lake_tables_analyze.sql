-- Without statistics the planner underestimates the joins of the checks.
analyze lake_balance, lake_event;
