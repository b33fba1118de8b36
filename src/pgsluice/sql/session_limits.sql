-- Run in each new session of ours, on PostgreSQL 17 and later: servers before that refuse the setting in the startup packet.
set transaction_timeout = 0;
