-- Run in each new session of ours behind a pooler that refuses startup options: a role or a database may have set another level
-- than read committed, and to set it in the session would change that of the pooler's other clients.
select current_setting('default_transaction_isolation');
