select sluice.capture('public.pgbench_accounts', 'changes');
