insert into demo.processed (msg_id, aid, tid, bid, delta, attempt, fails_first, enqueued_at)
values (
    %(msg_id)s, %(aid)s, %(tid)s, %(bid)s, %(delta)s, %(attempt)s, %(fails_first)s, %(enqueued_at)s
);
