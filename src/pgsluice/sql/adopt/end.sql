select
    pg_catalog.set_config('client_min_messages', pg_catalog.current_setting('sluice.client_min_messages_before'), true),
    pg_catalog.set_config('sluice.adopting', '', true);
drop table if exists
    pg_temp.adopted_table, pg_temp.adopted_extension, pg_temp.adopted_relation, pg_temp.adopted_type, pg_temp.adopted_function,
    pg_temp.adopted_queue, pg_temp.adopted_grant, pg_temp.adopted_object,
    pg_temp.adopted_log, pg_temp.adopted_log_function,
    pg_temp.adopted_old_extension, pg_temp.adopted_old_queue, pg_temp.adopted_old_function, pg_temp.adopted_old_object,
    pg_temp.adopted_old_role;
