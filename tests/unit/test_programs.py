"""Tests that need a program which is missing are skipped with its name."""

import pytest

from support.clock import Clock
from support.programs import require


def test_a_missing_program_is_named_in_the_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(pytest.skip.Exception, match="a small disk needs on PATH: mount, umount"):
        require("mount", "umount", purpose="a small disk")


def test_a_compiler_without_an_assembler_skips_the_stepping_clock(monkeypatch, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(pytest.skip.Exception, match="a stepping clock needs on PATH: as, ld"):
        Clock(tmp_path)
