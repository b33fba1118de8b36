"""Lake tables in Azure Blob Storage, as Azurite emulates it, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pyarrow.fs
import pytest

from spark.test_object_store import (
    test_a_replayed_commit_adds_nothing,
    test_a_task_that_fails_leaves_no_file,
    test_an_object_of_any_size_replaces_another,
    test_compaction_keeps_the_rows_and_its_old_files_stay_for_a_day,
    test_files_that_a_vacuum_may_remove_are_not_committed,
    test_of_two_writers_with_the_same_micro_batch_one_commits,
    test_only_old_files_that_the_table_does_not_reference_are_removed,
    test_partition_values_are_read_back_whatever_their_characters,
    test_tables_in_a_folder_are_listed,
    test_writers_of_several_apps_lose_no_commit,
)
from support.azurite import ACCOUNT, CONTAINER, KEY, environment, program, running_azurite

__all__ = [
    "test_a_replayed_commit_adds_nothing",
    "test_a_task_that_fails_leaves_no_file",
    "test_an_object_of_any_size_replaces_another",
    "test_compaction_keeps_the_rows_and_its_old_files_stay_for_a_day",
    "test_files_that_a_vacuum_may_remove_are_not_committed",
    "test_of_two_writers_with_the_same_micro_batch_one_commits",
    "test_only_old_files_that_the_table_does_not_reference_are_removed",
    "test_partition_values_are_read_back_whatever_their_characters",
    "test_tables_in_a_folder_are_listed",
    "test_writers_of_several_apps_lose_no_commit",
]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def azurite() -> Iterator[int]:
    command = program()
    if command is None:
        pytest.skip("azurite-blob is not installed: npm install --global azurite")
    with running_azurite(command) as port:
        authority = f"127.0.0.1:{port}"
        pyarrow.fs.AzureFileSystem(
            account_name=ACCOUNT,
            account_key=KEY,
            blob_storage_authority=authority,
            blob_storage_scheme="http",
        ).create_dir(CONTAINER)
        yield port


@pytest.fixture
def lake(azurite: int, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in environment(azurite).items():
        monkeypatch.setenv(name, value)
    return f"az://{CONTAINER}/folder with spaces/{uuid4()}"
