insert into sluice.migration (version, checksum, breaking) values (:version, :checksum, :breaking);
