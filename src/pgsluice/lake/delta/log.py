"""Read the log of a Delta table commit by commit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from deltalake import Schema

from pgsluice.lake.changes import DataFile, LakeCommit, LakeLog
from pgsluice.lake.columns import plain
from pgsluice.lake.delta.files import files_of
from pgsluice.lake.delta.opening import Use, local_path, open_delta, version_since
from pgsluice.lake.storage import Folder, read_bytes


@dataclass(frozen=True, slots=True)
class DeltaLog(LakeLog):
    """Log of the Delta table in a folder."""

    folder: Folder

    def __str__(self) -> str:
        return f"the lake table in {self.folder}"

    def newest(self) -> tuple[str, int]:
        table = open_delta(self.folder, Use.READ)
        return str(table.metadata().id), table.version()

    def files(self, version: int) -> list[DataFile]:
        found = files_of(open_delta(self.folder, Use.READ, version=version))
        return [
            DataFile(self.folder, file.path, file.size_bytes, file.partition)
            for file in sorted(found, key=lambda file: file.path)
        ]

    def commit(self, version: int) -> LakeCommit | None:
        try:
            text = read_bytes(self.folder, f"_delta_log/{version:020d}.json").decode()
        except FileNotFoundError:
            return None
        added, removes_rows, columns = [], False, None
        for line in text.splitlines():
            action = json.loads(line) if line.strip() else {}
            if (add := action.get("add")) and add["dataChange"]:
                # The protocol writes null as an empty text, too.
                values = {name: value or None for name, value in add["partitionValues"].items()}
                path = local_path(add["path"], self.folder)
                added.append(DataFile(self.folder, path, add["size"], values))
            elif remove := action.get("remove"):
                removes_rows |= remove.get("dataChange", True)
            elif metadata := action.get("metaData"):
                schema = Schema.from_json(metadata["schemaString"])
                columns = plain(pa.schema(schema.to_arrow()))
        return LakeCommit(added, removes_rows, columns)

    def since(self, moment: datetime) -> int:
        return version_since(self.folder, moment)
