"""The pipelines' configuration file: sections, defaults, shards, and errors that name the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from pgsluice.errors import ConfigurationError
from pgsluice.pipelines import changes as changes_module
from pgsluice.pipelines import config
from pgsluice.pipelines.options import CurrentStateOptions, StreamOptions

EVENTS = '[orders]\nkind = "events"\nlog = "orders"\nlake = "lake"\ncheckpoint = "/notes"\n'


def load(tmp_path: Path, text: str) -> config.Configuration:
    file = tmp_path / "pipelines.toml"
    file.write_text(text, encoding="utf-8")
    return config.load(file)


def test_a_section_has_the_arguments_of_its_kind(tmp_path: Path):
    found = load(tmp_path, f"{EVENTS}once_more = 1\n".replace("once_more", "partitions"))

    assert found.pipelines["orders"] == config.Pipeline(
        "orders",
        "events",
        # A relative path is relative to the file's folder, not to the working directory.
        {"log": "orders", "lake": str(tmp_path / "lake"), "checkpoint": "/notes", "partitions": 1},
    )


def test_an_iceberg_tables_address_is_no_path(tmp_path: Path):
    found = load(tmp_path, EVENTS.replace('"lake"', '"iceberg:lake/shop.orders"'))

    assert found.pipelines["orders"].options["lake"] == "iceberg:lake/shop.orders"


def test_defaults_are_for_those_that_say_nothing_else(tmp_path: Path):
    other = EVENTS.replace("[orders]", "[other]") + 'dsn = "postgresql://other"\n'
    found = load(tmp_path, f'[defaults]\ndsn = "postgresql://all"\n{EVENTS}{other}')

    dsns = [pipeline.options["dsn"] for pipeline in found.pipelines.values()]
    assert dsns == ["postgresql://all", "postgresql://other"]


def test_shards_are_texts_by_name_and_not_quoted(tmp_path: Path):
    found = load(tmp_path, f'{EVENTS}shards.eu = "env:EU"\nshards.us = "file:/us"\n')

    assert found.pipelines["orders"].options["shards"] == {"eu": "env:EU", "us": "file:/us"}
    for wrong, named in (
        ("shards.us = 1", "has shards.us of type int"),
        ("shards = 7", "has shards of type int;"),
    ):
        with pytest.raises(ConfigurationError, match=named) as caught:
            load(tmp_path, f"{EVENTS}{wrong}\n")
        assert "sesame" not in str(caught.value)


def test_partition_columns_are_a_list(tmp_path: Path):
    found = load(tmp_path, f'{EVENTS}partition_by = ["ev_date", "ev_type"]\n')

    assert found.pipelines["orders"].options["partition_by"] == ["ev_date", "ev_type"]


def test_settings_of_spark_have_their_whole_names(tmp_path: Path):
    text = f'[spark]\nmaster = "local[4]"\nexecutor.memory = "4g"\nui.enabled = true\n{EVENTS}'

    assert load(tmp_path, text).spark == {
        "spark.master": "local[4]",
        "spark.executor.memory": "4g",
        "spark.ui.enabled": "true",
    }


def test_a_pipeline_does_not_show_its_options(tmp_path: Path):
    pipeline = load(tmp_path, f'{EVENTS}dsn = "postgresql://me:sesame@host"\n').pipelines["orders"]

    assert "sesame" not in repr(pipeline)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no pipeline"),
        ("orders = 1", "'orders' outside a section"),
        ("[orders", "is not valid TOML"),
        ("[orders]\n", r"\[orders\] in .* has no kind; use .*events"),
        ('[orders]\nkind = "event"', "has the kind 'event'; use .*events"),
        ("[events]\n", "section name 'events' in .* is reserved"),
        ("[all]\n", "section name 'all' in .* is reserved"),
        (EVENTS.replace('lake = "lake"\n', ""), "has no lake; events needs log, lake, checkpoint"),
        (f"{EVENTS}lakes = 1", r"\[orders\] .* has the key 'lakes', which events does not take"),
        (f"{EVENTS}once = true", "has the key 'once'"),
        (f"{EVENTS}trigger_s = '1'", r"has trigger_s of type str; use float"),
        (f"{EVENTS}partitions = true", r"has partitions of type bool; use int"),
        (f"[defaults]\ndns = 'x'\n{EVENTS}", r"takes dns, set under \[defaults\]"),
        (f"[spark]\nmaster = [1]\n{EVENTS}", r"spark.master = \[1\]"),
    ],
)
def test_configuration_error_is_named(tmp_path: Path, text: str, message: str):
    with pytest.raises(ConfigurationError, match=message):
        load(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"none\.toml cannot be read"):
        config.load(tmp_path / "none.toml")


def test_pipelines_are_chosen_by_name_in_the_order_of_the_file(tmp_path: Path):
    other = EVENTS.replace("[orders]", "[other]")
    third = EVENTS.replace("[orders]", "[third]")
    found = load(tmp_path, EVENTS + other + third)

    assert [one.name for one in config.choose(found, ("third", "orders"))] == ["orders", "third"]
    assert [one.name for one in config.choose(found, ("all",))] == ["orders", "other", "third"]
    with pytest.raises(
        ConfigurationError, match="pipeline 'none' does not exist in the file; it has orders"
    ):
        config.choose(found, ("orders", "none"))


def test_every_kind_is_a_function_whose_arguments_a_file_can_give():
    for kind in config.KINDS:
        arguments = config.Pipeline(kind, kind).arguments()

        assert {"dsn", "on_progress"} <= arguments.keys(), kind
        assert all(argument.kind is not argument.POSITIONAL_ONLY for argument in arguments.values())


def test_fields_of_option_records_are_keys_of_a_section(tmp_path: Path):
    section = EVENTS.replace('"events"', '"changes"')
    options = "trigger_s = 2.0\ntables = ['public.account']\nbuckets = {'public.account' = 4}\n"
    pipeline = load(tmp_path, section + options).pipelines["orders"]

    assert not {"reading", "state"} & pipeline.arguments().keys()
    with pytest.raises(ConfigurationError, match="has the key 'state', which changes does not"):
        load(tmp_path, f"{section}state = 1\n")
    with patch.object(changes_module, "changes", autospec=True) as called:
        pipeline.run(once=True)
    called.assert_called_once_with(
        log="orders",
        lake=str(tmp_path / "lake"),
        checkpoint="/notes",
        once=True,
        reading=StreamOptions(trigger_s=2.0),
        state=CurrentStateOptions(tables=["public.account"], buckets={"public.account": 4}),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_change": "skip"}, "on_change is 'skip'; use park, rebuild"),
        (
            {"buckets": {"public.account": 1}},
            "buckets of public.account are 1; use a number from 2",
        ),
        ({"vacuum_retention_h": 0.5}, "invalid vacuum retention of 0.5 hours; use 1 or more"),
        (
            {"apply_every_s": 7300.0, "vacuum_retention_h": 2.0},
            "invalid vacuum retention of 2 hours",
        ),
    ],
)
def test_invalid_option_of_current_state_tables_is_refused(options: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        CurrentStateOptions(**options)


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize("key", ["dsn", "log", "lake", "checkpoint", "consumer", "shards.eu"])
def test_empty_value_is_refused_with_its_key_and_section(key: str, blank: str, tmp_path: Path):
    text = "".join(line for line in EVENTS.splitlines(True) if not line.startswith(key))

    with pytest.raises(ConfigurationError, match=rf"\[orders\] in .* has an empty {key}"):
        load(tmp_path, f'{text}{key} = "{blank}"\n')


def test_empty_default_is_refused(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="has an empty dsn"):
        load(tmp_path, f'[defaults]\ndsn = ""\n{EVENTS}')
