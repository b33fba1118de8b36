-- Silver: one typed row per order, from its newest event. Events that are not orders stay in bronze.
create materialized view silver as
select
    order_id,
    newest.customer,
    newest.amount,
    newest.status,
    newest.changed_at
from (
    select
        order_id,
        -- Not by ev_id alone: ids are assigned before commit, so concurrent transactions interleave them.
        max_by(struct(customer, amount, status, changed_at), struct(ev_txid, ev_id)) as newest
    from (
        select
            cast(get_json_object(ev_data, '$.order') as bigint) as order_id,
            get_json_object(ev_data, '$.customer') as customer,
            cast(get_json_object(ev_data, '$.amount') as decimal(12, 2)) as amount,
            ev_type as status,
            ev_time as changed_at,
            ev_txid,
            ev_id
        from bronze
    )
    where order_id is not null
    group by order_id
);
