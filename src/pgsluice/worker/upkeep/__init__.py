"""What runs beside the handlers: ticks, schedules, maintenance, and the election of the process that does it."""
