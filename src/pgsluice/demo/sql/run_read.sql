select run_id, seconds, clients, accounts, started_at, prepared_at, loaded_at, finished_at, interruptions,
    poison_msg_id
from demo.run;
