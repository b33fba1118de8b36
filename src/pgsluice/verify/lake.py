"""A table of the lake, read with pyarrow alone."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgsluice.errors import ConfigurationError, MissingExtraError

# Rows read at a time. Messages may be long, and a few batches are held at once.
_BATCH_ROWS = 8_192
_NEEDED = ("pyarrow", "deltalake")


@dataclass(frozen=True)
class Lake:
    """A Delta table as one of its versions has it.

    Attributes:
        path: Its folder.
        version: The version; what is committed later is not read.
        dataset: Its files, as pyarrow reads them.
    """

    path: Path
    version: int
    dataset: Any

    @classmethod
    def open(cls, path: str | Path) -> Lake:
        """Open a table at its newest version.

        Raises:
            MissingExtraError: A package that reads it is not installed.
            ConfigurationError: There is no table, or it uses what pyarrow cannot read.
        """
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise MissingExtraError(
                f"reading the lake needs the Python package{'s' * (len(missing) > 1)} {', '.join(missing)}; "
                "`pip install 'pgsluice[verify]'`"
            )
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaProtocolError

        folder = Path(path).expanduser().absolute()
        if not DeltaTable.is_deltatable(str(folder)):
            raise ConfigurationError(
                f"there is no lake table in {folder}; run a pipeline into it first"
            )
        table = DeltaTable(str(folder))
        try:
            dataset = table.to_pyarrow_dataset()
        except DeltaProtocolError as error:
            raise ConfigurationError(
                f"the lake table in {folder} cannot be read by pyarrow: {' '.join(str(error).split())}"
            ) from error
        return cls(folder, table.version(), dataset)

    @property
    def types(self) -> dict[str, Any]:
        """The columns in order, each with its type of Arrow."""
        return {field.name: field.type for field in self.dataset.schema}

    def batches(self, columns: Sequence[str], *, unless: str | None = None) -> Iterator[Any]:
        """The rows in no order, some thousand at a time.

        Args:
            columns: Which columns of them.
            unless: A column of booleans; rows in which it is true are left out.
        """
        import pyarrow.compute as pc

        wanted = [*columns, *([unless] if unless else [])]
        # One file and one batch ahead: how much is held must not grow with the machine.
        for batch in self.dataset.to_batches(
            columns=wanted, batch_size=_BATCH_ROWS, batch_readahead=1, fragment_readahead=1
        ):
            if unless is None:
                yield batch
            else:
                # Not as a filter of the dataset: that leaves out whole files by their statistics, and is to be checked.
                yield batch.filter(pc.invert(pc.fill_null(batch.column(unless), False)))
