-- Sessions that a killed run left behind; returns how many are still there.
select count(pg_terminate_backend(pid))
from pg_stat_activity
where datname = 'pgsluice_demo'
  and application_name like 'pgsluice%'
  and pid <> pg_backend_pid();
