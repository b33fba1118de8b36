select version, checksum from sluice.migration order by version;
