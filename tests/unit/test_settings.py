"""Settings: arguments override the environment, which overrides the defaults."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import pytest

from pgsluice.errors import ConfigurationError
from pgsluice.settings import Settings, default_home, is_tracing_allowed

ENVIRON = {
    "PGSLUICE_HOME": "/from/environ",
    "PGSLUICE_EMBEDDED_VERSION": "16",
    "PGSLUICE_CONNECT_TIMEOUT_S": "3",
}


def test_without_arguments_and_environment_the_defaults_hold():
    settings = Settings.load(environ={})

    assert settings == Settings(home=default_home(), embedded_version=18, connect_timeout_s=10)


def test_the_environment_overrides_the_defaults():
    settings = Settings.load(environ=ENVIRON)

    assert settings == Settings(
        home=Path("/from/environ"),
        embedded_version=16,
        connect_timeout_s=3,
    )


def test_arguments_override_the_environment():
    settings = Settings.load(
        home="/from/argument",
        embedded_version=18,
        environ=ENVIRON,
    )

    assert settings.home == Path("/from/argument")
    assert settings.embedded_version == 18


def test_an_argument_is_not_hindered_by_a_bad_variable_it_overrides():
    settings = Settings.load(embedded_version=16, environ={"PGSLUICE_EMBEDDED_VERSION": "x"})

    assert settings.embedded_version == 16


def test_the_process_environment_is_read_by_default(monkeypatch):
    monkeypatch.setenv("PGSLUICE_HOME", "/from/process")

    assert Settings.load().home == Path("/from/process")


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize("name", ENVIRON)
def test_variable_that_is_set_but_empty_is_refused_by_its_name(name, blank):
    with pytest.raises(ConfigurationError, match=f"{name} is set but empty"):
        Settings.load(environ={name: blank})


@pytest.mark.parametrize("given", [{"home": ""}, {"home": " "}])
def test_empty_argument_is_refused_and_does_not_mean_the_default(given):
    with pytest.raises(ConfigurationError, match="is empty"):
        Settings.load(**given, environ={})


def test_the_home_is_absolute_and_its_tilde_is_expanded(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    assert Settings.load(home="~/kept", environ={}).home == tmp_path / "kept"
    assert Settings.load(home="kept", environ={}).home == tmp_path / "kept"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "PGSLUICE_EMBEDDED_VERSION",
            "17",
            "embedded PostgreSQL 17 is not available; use 16 or 18",
        ),
        ("PGSLUICE_EMBEDDED_VERSION", "new", "PGSLUICE_EMBEDDED_VERSION is 'new'; use a whole"),
        ("PGSLUICE_CONNECT_TIMEOUT_S", "1", "PGSLUICE_CONNECT_TIMEOUT_S is 1; use 2 or more"),
        ("PGSLUICE_CONNECT_TIMEOUT_S", "2.5", "PGSLUICE_CONNECT_TIMEOUT_S is '2.5'; use a whole"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named_with_a_hint(name, text, words):
    with pytest.raises(ConfigurationError, match=words):
        Settings.load(environ={name: text})


def test_settings_cannot_be_changed_after_they_were_read():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings.load(environ={}).embedded_version = 16


@pytest.mark.parametrize("variable", ["HOME", "XDG_DATA_HOME"])
def test_root_keeps_its_data_in_its_home_where_others_may_enter(variable, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        home = Path(name)
        monkeypatch.setenv(variable, name)

        home.chmod(0o755)
        assert home in default_home().parents
        home.chmod(0o700)
        assert default_home() == Path("/var/lib/pgsluice")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, True),
        ({"PGSLUICE_TRACING": "on"}, True),
        ({"PGSLUICE_TRACING": "off"}, False),
        ({"PGSLUICE_TRACING": "on", "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({"OTEL_SDK_DISABLED": "false"}, True),
    ],
)
def test_tracing_is_allowed_unless_a_variable_switches_it_off(environ, expected):
    assert is_tracing_allowed(environ) is expected


@pytest.mark.parametrize("text", ["", "true"])
def test_an_invalid_switch_of_tracing_is_refused(text):
    with pytest.raises(ConfigurationError, match="PGSLUICE_TRACING"):
        is_tracing_allowed({"PGSLUICE_TRACING": text})
