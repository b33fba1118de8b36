-- For pg_cron 1.5 or later, in the database of its extension, as a member of sluice_admin. Each job is its own transaction.
select cron.schedule('pgsluice tick', '1 second', 'do $tick$ begin perform set_config(''sluice.tick_after'', ''>'', false); loop perform sluice.tick(); commit; exit when current_setting(''sluice.tick_after'') = ''>''; end loop; end $tick$');
select cron.schedule('pgsluice schedules', '1 second', 'select * from sluice.fire_schedules()');
select cron.schedule('pgsluice retry', '5 seconds', 'select pgq.maint_retry_events()');
select cron.schedule('pgsluice notify', '1 second', 'select sluice.notify_ready()');
select cron.schedule('pgsluice rotate', '30 seconds', 'do $rotate$ begin perform set_config(''sluice.rotate_after'', ''>'', false); loop perform sluice.rotate(); commit; exit when current_setting(''sluice.rotate_after'') = ''>''; end loop; end $rotate$');
select cron.schedule('pgsluice maintain', '30 seconds', 'select * from sluice.maintain()');
select cron.schedule('pgsluice extra', '30 seconds', 'do $extra$ declare e record; begin for e in select l.log_name, l.function_name from sluice.list_extra_maint(null) as l loop begin perform sluice.run_extra_maint(e.log_name, e.function_name); exception when others then raise warning ''function % of event log % failed: %'', e.function_name, e.log_name, sqlerrm; end; end loop; end $extra$');
