-- Without functions, the role that creates a queue creates its tables itself. The functions take this right back: begin.sql.
grant create on schema pgmq to sluice_admin;
