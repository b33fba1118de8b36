-- breaking: no
alter table sluice.schedule add column undeclared_at timestamptz;
comment on column sluice.schedule.undeclared_at is
    'When a version of the app that declared it started without declaring it, which paused it; null: declared, or by hand.';
