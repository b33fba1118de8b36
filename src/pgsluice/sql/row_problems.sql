-- Event logs whose rows were changed by hand: the kind, the name, the problem and the way out.
select 'log', coalesce(p.log_name, '*'), p.problem, p.hint from sluice.list_log_problems() as p;
