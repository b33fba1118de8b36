select extract(epoch from enqueued_at)::float8, extract(epoch from processed_at)::float8
from demo.processed
order by processed_at;
