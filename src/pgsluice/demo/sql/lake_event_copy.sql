copy lake_event (ev_id, ev_type) from stdin (format csv)
