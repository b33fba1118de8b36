"""The pages, one module each: read, then render a template of the same name."""

from __future__ import annotations

from starlette.routing import Route

from pgsluice.dashboard.pages import (
    act,
    audit,
    consumers,
    dead_letters,
    doctor,
    events,
    groups,
    logs,
    message,
    messages,
    overview,
    pipelines,
    queue,
    queues,
    schedules,
    search,
    workers,
)

ROUTES: tuple[Route, ...] = (
    Route("/", overview.overview, name="overview"),
    Route("/search", search.search, name="search"),
    Route("/queues", queues.queues, name="queues"),
    Route("/queue", queue.queue, name="queue"),
    Route("/messages", messages.messages, name="messages"),
    Route("/message", message.message, name="message"),
    Route("/message/payload", message.payload, name="message_payload"),
    Route("/dead-letters", dead_letters.dead_letters, name="dead_letters"),
    Route("/dead-letters/export", dead_letters.export, name="dead_letters_export"),
    Route("/logs", logs.logs, name="logs"),
    Route("/log", logs.log, name="log"),
    Route("/events", events.events, name="events"),
    Route("/event", events.event, name="event"),
    Route("/consumer", consumers.consumer, name="consumer"),
    Route("/group", groups.group, name="group"),
    Route("/schedules", schedules.schedules, name="schedules"),
    Route("/schedule", schedules.schedule, name="schedule"),
    Route("/workers", workers.workers, name="workers"),
    Route("/pipelines", pipelines.pipelines, name="pipelines"),
    Route("/pipeline", pipelines.pipeline, name="pipeline"),
    Route("/doctor", doctor.doctor, name="doctor"),
    Route("/act/{act}", act.act, name="act", methods=["GET", "POST"]),
    Route("/job", act.job, name="job", methods=["GET", "POST"]),
    Route("/audit", audit.audit, name="audit"),
)
