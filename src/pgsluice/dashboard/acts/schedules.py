"""Acts on a schedule: run, pause, resume."""

from __future__ import annotations

from pgsluice.client import Schedule
from pgsluice.commands import command
from pgsluice.dashboard.acts.act import Act, Link, Question
from pgsluice.dashboard.acts.given import FormValues
from pgsluice.dashboard.database import Database, PageSession
from pgsluice.errors import ScheduleNotFoundError


def _back(given: FormValues) -> Link:
    name = given.text("name")
    return Link("schedule", {"name": name}, f"Schedule {name}")


def _find(database: Database, given: FormValues) -> Schedule:
    name = given.text("name")
    listed = database.read(lambda s: s.schedules.list_schedules())
    found = next((each for each in listed if each.name == name), None)
    if found is None:
        raise ScheduleNotFoundError(names=(name,))
    return found


def _what(schedule: Schedule) -> str:
    if schedule.target == "queue":
        return f"message of schedule {schedule.name} to queue {schedule.queue_name}"
    return f"event of schedule {schedule.name} to log {schedule.queue_name}"


def _ask_run(database: Database, given: FormValues) -> Question:
    schedule = _find(database, given)
    return Question(
        f"Send the {_what(schedule)} now, in addition to its slots.",
        ("It stays paused.",) if schedule.paused_at is not None else (),
        command("schedule run", schedule.name),
    )


def _run(session: PageSession, given: FormValues) -> str:
    name = given.text("name")
    return f"Schedule {name} has sent {session.schedules.run_schedule(name)}."


def _ask_pause(database: Database, given: FormValues) -> Question:
    schedule = _find(database, given)
    if schedule.paused_at is not None:
        return Question(f"Schedule {schedule.name} is paused already.", is_possible=False)
    return Question(
        f"Pause schedule {schedule.name}: it sends no {_what(schedule)}.",
        ("Slots during the pause are skipped.",),
        command("schedule set", schedule.name, "paused=true"),
    )


def _pause(session: PageSession, given: FormValues) -> str:
    name = given.text("name")
    was = "is paused" if session.schedules.pause_schedule(name) else "was paused already"
    return f"Schedule {name} {was}."


def _ask_resume(database: Database, given: FormValues) -> Question:
    schedule = _find(database, given)
    if schedule.paused_at is None:
        return Question(f"Schedule {schedule.name} is not paused.", is_possible=False)
    return Question(
        f"Resume schedule {schedule.name}, with its first slot from now on.",
        ("Slots during the pause stay skipped.",),
        command("schedule set", schedule.name, "paused=false"),
    )


def _resume(session: PageSession, given: FormValues) -> str:
    name = given.text("name")
    was = "is resumed" if session.schedules.resume_schedule(name) else "was not paused"
    return f"Schedule {name} {was}."


ACTS = (
    Act(
        name="run_schedule",
        title="Run the schedule now",
        arguments=("name",),
        functions=("sluice.run_schedule(text)",),
        ask=_ask_run,
        back=_back,
        run=_run,
    ),
    Act(
        name="pause_schedule",
        title="Pause the schedule",
        arguments=("name",),
        functions=("sluice.pause_schedule(text, boolean)",),
        ask=_ask_pause,
        back=_back,
        run=_pause,
    ),
    Act(
        name="resume_schedule",
        title="Resume the schedule",
        arguments=("name",),
        functions=("sluice.pause_schedule(text, boolean)",),
        ask=_ask_resume,
        back=_back,
        run=_resume,
    ),
)
