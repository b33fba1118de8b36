"""An act: what it asks, the rights it needs, and how it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pgsluice.dashboard.acts.given import FormValues
from pgsluice.dashboard.database import Database, PageSession

# Also needed by acts whose functions record themselves with the rights of their owner.
NOTE = "sluice.note_action(text,text,jsonb,bigint,text)"


@dataclass(frozen=True, slots=True)
class Link:
    """A page of the dashboard: the name of its route, and its query."""

    page: str
    query: Mapping[str, Any]
    label: str


@dataclass(frozen=True, slots=True)
class Field:
    """A value that a person fills in.

    Attributes:
        name: Name of the value.
        label: Its label.
        help: What is accepted, in one sentence.
        is_long: True for a text of several lines.
        is_required: True if it may not be empty.
        value: The first value.
    """

    name: str
    label: str
    help: str = ""
    is_long: bool = False
    is_required: bool = False
    value: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """The question of an act, asked before it runs.

    Attributes:
        sentence: What it will do, with the number and the object.
        details: What to know before, a sentence each.
        command: The equivalent command, or None.
        frozen: Values that keep what the question was about, such as the highest id.
        number: How much it will affect; None: one thing, or not counted.
        is_possible: False if there is nothing to do; the sentence says why.
    """

    sentence: str
    details: tuple[str, ...] = ()
    command: str | None = None
    frozen: Mapping[str, str] = field(default_factory=dict)
    number: int | None = None
    is_possible: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a bulk act, done in a transaction of its own.

    Attributes:
        count: How much was done.
        after_id: Where the next step starts; None: this was the last.
    """

    count: int
    after_id: int | None


Ask = Callable[[Database, FormValues], Question]
Run = Callable[[PageSession, FormValues], str]
RunStep = Callable[[PageSession, FormValues, int | None], Step]


@dataclass(frozen=True, slots=True)
class Act:
    """An act, which either runs in one transaction, or in steps.

    Attributes:
        name: Its name in addresses.
        title: Title of its form, and label of its button.
        arguments: Names of what it acts on; all are needed.
        functions: The functions that it calls, with the types of their arguments.
        ask: Returns its question.
        back: Returns the page to return to.
        run: Runs it, and returns what was done in one sentence; None: it has steps.
        step: Runs a part, after an id; None: it has no steps.
        done: The word for what its steps have done: `redriven`.
        choices: Names of arguments that may be left out, and of values that a question freezes.
        fields: What a person fills in.
        is_destructive: True if what it removes cannot be restored: its buttons warn.
        ids: Name of the value that may have several ids, those of the rows that a person has selected; empty: none.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    functions: tuple[str, ...]
    ask: Ask
    back: Callable[[FormValues], Link]
    run: Run | None = None
    step: RunStep | None = None
    done: str = ""
    choices: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    is_destructive: bool = False
    ids: str = ""

    @property
    def names(self) -> frozenset[str]:
        """Names of all values."""
        return frozenset((*self.arguments, *self.choices, *(each.name for each in self.fields)))
