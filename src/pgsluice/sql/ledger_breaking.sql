select version from sluice.migration where breaking is not null order by version;
