"""`pgsluice doctor`: find the known causes of trouble, explain each, and name the command that corrects it.

`diagnose` runs the checks, each within its budget, and never raises for what it finds. `repair` runs the commands that
concern our own objects only, and are idempotent and reversible.
"""

from __future__ import annotations

from pgsluice.ops.doctor.diagnosis import CHECKS, Repair, diagnose, repair
from pgsluice.ops.doctor.findings import Check, Finding, problem_of
from pgsluice.ops.doctor.server_facts import IN_EXPLAIN, server_facts
from pgsluice.ops.doctor.thresholds import Thresholds

__all__ = [
    "CHECKS",
    "IN_EXPLAIN",
    "Check",
    "Finding",
    "Repair",
    "Thresholds",
    "diagnose",
    "problem_of",
    "repair",
    "server_facts",
]
