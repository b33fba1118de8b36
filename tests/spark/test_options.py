"""Options of our Spark formats: each is declared, documented and read, and others are refused."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

import pgsluice.spark
from pgsluice.errors import ConfigurationError
from pgsluice.spark.lake_source import DeltaSource, IcebergSource
from pgsluice.spark.options import OPTIONS
from pgsluice.spark.source import PgsluiceSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = {source.name(): source for source in (PgsluiceSource, DeltaSource, IcebergSource)}
MODULES = sorted(Path(pgsluice.spark.__file__).parent.glob("*.py"))
GUIDES = Path(__file__).parents[2] / "docs" / "guides"
DECLARED = {name for names in OPTIONS.values() for name in names}
# Functions that read an option; the name is an argument.
READERS = {"get", "whole_number", "whole_number_or_zero", "truth", "duration_s", "one_of"}
# For tests only.
UNDOCUMENTED = {"sliceEventsMin"}


def literals_read(module: Path) -> set[str]:
    """The options that a module reads by a literal name."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in READERS and "options" in ast.unparse(node):
                one = node.args[0 if name == "get" else 1]
                if isinstance(one, ast.Constant):
                    found.add(one.value)
        elif (
            isinstance(node, ast.Subscript)
            and ast.unparse(node.value).endswith("options")
            and isinstance(node.slice, ast.Constant)
        ):
            found.add(node.slice.value)
    return found


def options_of_tables(text: str) -> set[str]:
    """The names in the first column of a docstring's list of options."""
    found = set()
    for block in re.findall(r"^Options.*?:\n((?:    .*\n)+)", text, re.MULTILINE):
        for line in re.findall(r"^    (\S.*)$", block, re.MULTILINE):
            column = re.split(r"  ", line)[0]
            found |= set(re.findall(r"[\w.-]+", column))
    return found


def test_each_option_that_is_read_is_declared():
    read = set().union(*map(literals_read, MODULES))

    assert {"txnAppId", "maxTriggerDelay", "partitionBy"} <= read
    assert read - DECLARED - {"path", "checkpointLocation"} == set()


def test_each_documented_option_is_declared_and_each_declared_one_documented():
    texts = [ast.get_docstring(ast.parse(m.read_text(encoding="utf-8"))) or "" for m in MODULES]
    listed = set().union(*map(options_of_tables, texts))
    prose = "\n".join([*texts, *(g.read_text(encoding="utf-8") for g in GUIDES.glob("*.md"))])

    assert {"txnAppId", "maxTriggerDelay", "connect.retryIntervalMs"} <= listed
    assert listed - DECLARED - {"path"} == set()
    undocumented = {name for name in DECLARED if not re.search(rf"(?<![\w-]){name}\b", prose)}
    assert undocumented == UNDOCUMENTED


@pytest.mark.parametrize("name", OPTIONS)
def test_declared_options_and_those_of_spark_pass_in_any_case(name: str):
    sparks = ["path", "checkpointlocation", "QUERYNAME"]

    for option in [*OPTIONS[name], *map(str.lower, OPTIONS[name]), *sparks]:
        assert SOURCES[name](options={option: "1"}).options == {option: "1"}


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("pgsluice", "maxRowsPerTriger", "'maxrowspertriger'.*; did you mean maxRowsPerTrigger?"),
        ("pgsluice", "dsn_file", "did you mean dsnFile?"),
        ("pgsluice-delta", "partitionby_", "did you mean partitionBy?"),
        ("pgsluice-iceberg", "txnApp", "did you mean txnAppId?"),
        ("pgsluice-delta", "queue", "unknown option 'queue' of the format pgsluice-delta; omit it"),
    ],
)
def test_an_unknown_option_is_refused_with_a_suggestion(name: str, option: str, message: str):
    with pytest.raises(ConfigurationError, match=re.escape(message).replace(r"\.\*", ".*")):
        SOURCES[name](options={option: "1"})


@pytest.mark.parametrize("name", OPTIONS)
def test_spark_reports_a_misspelt_option(spark: SparkSession, name: str):
    with pytest.raises(AnalysisException, match="unknown option 'txnverson'.*txnVersion?"):
        spark.range(1).write.format(name).mode("append").option("txnVerson", 1).save("/nowhere")


def test_properties_of_a_sql_table_are_not_options():
    table = {"provider": "pgsluice", "owner": "me", "location": "file:/x", "path": "file:/x"}

    PgsluiceSource(options={**table, "queue": "a", "option.queue": "a"})
    with pytest.raises(ConfigurationError, match="unknown option 'queu'"):
        PgsluiceSource(options={**table, "queu": "a", "option.queu": "a"})
