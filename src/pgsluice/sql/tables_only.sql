-- Without functions, the role that creates a queue creates its tables itself. begin.sql revokes this right.
grant create on schema pgmq to sluice_admin;
