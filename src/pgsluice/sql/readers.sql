-- Every queue's and log's own functions, as this release has them.
do $$
begin
    perform pgmq._create_reader(m.queue_name) from pgmq.meta as m;
    perform pgq._create_log_functions(q.queue_id) from pgq.queue as q;
end;
$$;
-- Every log's rights, as this release has them.
do $$
begin
    perform pgq._grant_queue(q.queue_id), pgq.tune_storage(q.queue_name) from pgq.queue as q;
end;
$$;
