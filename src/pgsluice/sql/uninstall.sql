-- Cascade: event tables inherit, and captured tables have triggers that call our functions.
drop schema pgmq, pgq, pgq_coop, sluice cascade;
