-- Every queue's own function, as this release has it.
do $$
begin
    perform pgmq._create_reader(m.queue_name) from pgmq.meta as m;
end;
$$;
