update demo.run set prepared_at = clock_timestamp(), poison_msg_id = %(poison_msg_id)s;
