"""Growth of costs against the number of queues, logs, consumers, members, workers, keys, schedules and dead letters."""
