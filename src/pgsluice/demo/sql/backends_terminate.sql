-- Terminate the sessions of a killed run; returns the number of remaining ones.
select count(pg_terminate_backend(pid))
from pg_stat_activity
where datname = 'pgsluice_demo'
  and application_name like 'pgsluice%'
  and pid <> pg_backend_pid();
