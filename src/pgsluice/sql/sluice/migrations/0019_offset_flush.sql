-- breaking: no
create sequence sluice.offset_flush_seq;
comment on sequence sluice.offset_flush_seq is
    'Set, always to 1, by transactions that return a snapshot as an offset: they must write for their commit to be flushed.';
