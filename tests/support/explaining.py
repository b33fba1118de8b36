"""Rows of the explain functions as records, with their sentences."""

from __future__ import annotations

import psycopg

from pgsluice.client.explain_records import ExplainedFact
from pgsluice.client.explanations import explained
from support import rows


def explain(
    connection: psycopg.Connection, function: str, *arguments: object
) -> list[ExplainedFact]:
    """Call `sluice.explain_…` and return its facts."""
    places = ", ".join(["%s"] * len(arguments))
    return explained(rows(connection, f"select * from sluice.{function}({places})", *arguments))


def causes(facts: list[ExplainedFact]) -> list[str]:
    """Return the words for the reasons among the facts."""
    return [fact.cause for fact in facts if fact.section == "reason"]


def sentences(facts: list[ExplainedFact], section: str) -> list[str]:
    """Return the sentences of a section."""
    return [fact.fact for fact in facts if fact.section == section]


def commands(facts: list[ExplainedFact]) -> list[str]:
    """Return all commands of the facts."""
    return [command for fact in facts for command in fact.commands]
