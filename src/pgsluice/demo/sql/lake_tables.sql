-- Temporary tables for the lake's data.
create temporary table lake_balance (aid integer not null, abalance integer not null) on commit drop;
create temporary table lake_event (ev_id bigint not null, ev_type text not null) on commit drop;
