"""Do without the statistics of files that do not bound the values of their columns.

deltalake's pyarrow dataset takes a column without a range for one without values, if another column of the file has a
range, so filters on it match nothing. Our files have no range for decimals of more than 15 digits, and for columns with
NaN or infinity; files of delta-rs have one of rounded decimals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from pgsluice.lake.stats import has_range

if TYPE_CHECKING:
    from deltalake import DeltaTable


def with_trusted_bounds(
    dataset: pyarrow.dataset.FileSystemDataset, table: DeltaTable
) -> pyarrow.dataset.FileSystemDataset:
    """Return the dataset of a Delta table in which filters skip no file with matching rows.

    Args:
        dataset: Of all or some files of the table, as deltalake returns it.
        table: The table.
    """
    floating = [f.name for f in dataset.schema if pa.types.is_floating(f.type)]
    has_wide = any(pa.types.is_decimal(f.type) and not has_range(f.type) for f in dataset.schema)
    if not (floating or has_wide):
        return dataset
    actions = {
        unquote(action["path"]): action
        for action in pa.table(table.get_add_actions(flatten=True)).to_pylist()
    }
    by = [dataset.schema.field(name) for name in table.metadata().partition_columns]
    fragments = [
        fragment
        if not has_wide and _are_bounded(actions[fragment.path], floating)
        else dataset.format.make_fragment(
            fragment.path,
            filesystem=dataset.filesystem,
            partition_expression=_partition(actions[fragment.path], by),
        )
        for fragment in dataset.get_fragments()
    ]
    return pyarrow.dataset.FileSystemDataset(
        fragments, dataset.schema, dataset.format, dataset.filesystem
    )


def _are_bounded(action: dict[str, Any], columns: list[str]) -> bool:
    return all(
        f"partition.{name}" in action
        or action.get(f"min.{name}") is not None
        or action.get(f"null_count.{name}") == action["num_records"]
        for name in columns
    )


def _partition(action: dict[str, Any], by: list[pa.Field]) -> pc.Expression | None:
    expression = None
    for field in by:
        value = action[f"partition.{field.name}"]
        column = pc.field(field.name)
        is_value = column.is_null() if value is None else column == pa.scalar(value, field.type)
        expression = is_value if expression is None else expression & is_value
    return expression
