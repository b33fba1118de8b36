-- Without it the planner takes the joins below for tiny ones.
analyze lake_balance, lake_event;
