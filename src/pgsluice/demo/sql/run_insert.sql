insert into demo.run (run_id, seconds, clients, accounts)
values (%(run_id)s, %(seconds)s, %(clients)s, %(accounts)s);
