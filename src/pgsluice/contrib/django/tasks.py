"""A backend of Django's tasks on work queues.

    TASKS = {"default": {"BACKEND": "pgsluice.contrib.django.tasks.PgsluiceBackend", "QUEUES": ["default"]}}

`django.tasks` of Django 6, or the package `django-tasks` with Django 5.2. A task is enqueued on Django's connection, in
the transaction of `atomic()`. `manage.py pgsluice_worker` runs the tasks, each at least once.
"""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import traceback
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pgsluice.client import DeadLetters, Operations, WorkQueue
from pgsluice.contrib.django.app import DjangoApp
from pgsluice.errors import HandlerError, MissingExtraError, QueueNotFoundError
from pgsluice.outcome import Reject
from pgsluice.worker.handlers.sendable import Handler

if TYPE_CHECKING:
    from pgsluice.worker.engine.run.context import SyncContext

# Installed: the module of the app reports a missing package.
from django.conf import settings  # isort: skip
from django.core import checks  # isort: skip
from django.db import connections  # isort: skip
from django.utils import timezone  # isort: skip
from django.utils.module_loading import import_string  # isort: skip

try:
    from django.tasks import Task, TaskContext, TaskResult, TaskResultStatus, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import TaskError
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json
except ModuleNotFoundError:
    try:
        from django_tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.base import Task, TaskError
        from django_tasks.exceptions import TaskResultDoesNotExist
        from django_tasks.signals import task_enqueued, task_finished, task_started
        from django_tasks.utils import normalize_json
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"tasks require Django 6 or the Python package {error.name}; `pip install 'pgsluice[django]' django-tasks`"
        ) from None

_STATUSES = {
    "waiting": TaskResultStatus.READY,
    "retrying": TaskResultStatus.READY,
    "running": TaskResultStatus.RUNNING,
    "done": TaskResultStatus.SUCCESSFUL,
    "dead": TaskResultStatus.FAILED,
}
_MOST_URGENT, _LEAST_URGENT = 100, -100


class PgsluiceBackend(BaseTaskBackend):
    """Enqueues tasks to work queues of the same names, which must exist.

    Its `OPTIONS` in `TASKS`:

    - `database`: alias of the database in `DATABASES`. Default: `default`.
    - `priorities`: number of priorities of its queues (see `QueueOptions.priority_weights`), 2 to 9. Default: no task
      may have a priority.
    - `handler`: options of the handlers, see `HandlerOptions`; `{"mode": "transaction"}` acknowledges in the
      transaction of the task's writes. Default of `keep_result`: `1d`; None: there are no results.

    Attributes:
        app: An app with a handler for each queue.
    """

    supports_defer = True
    supports_async_task = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        """Prepare a backend; called by Django."""
        super().__init__(alias, params)
        self._using: str = self.options.get("database", "default")
        self._priorities: int | None = self.options.get("priorities")
        self.supports_priority = self._priorities is not None
        self._handler_options = {"keep_result": "1d", **self.options.get("handler", {})}
        self.supports_get_result = self._handler_options["keep_result"] is not None
        self.app = DjangoApp(name="django tasks", using=self._using)
        self._handlers: dict[str, Handler[Any, ..., Any]] = {}
        for queue_name in sorted(self.queues):
            self._handler(queue_name)

    def check(self, **_options: Any) -> Iterable[checks.CheckMessage]:
        """Yield errors of the settings."""
        if not self.queues:
            yield checks.Error(
                f"TASKS[{self.alias!r}] names no queues.",
                hint="List them in QUEUES: workers read only these.",
                id="pgsluice.E004",
            )
        if connections[self._using].vendor != "postgresql":
            yield checks.Error(
                f"TASKS[{self.alias!r}] uses database {self._using!r}, which is not a PostgreSQL.",
                hint="Name another in OPTIONS: {'database': …}.",
                id="pgsluice.E005",
            )

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Send a task to its queue, in the transaction of `atomic()`.

        Raises:
            InvalidTask: The backend does not run such a task.
            TypeError: An argument has no JSON form.
            QueueNotFoundError: The queue does not exist.
        """
        self.validate_task(task)
        enqueued_at = timezone.now()
        result = self._result(
            task, "", TaskResultStatus.READY, enqueued_at, {"args": args, "kwargs": kwargs}
        )
        payload = {"task": task.module_path, "args": result.args, "kwargs": result.kwargs}
        message_id = self._handler(task.queue_name).send(
            payload, at=_aware(task.run_after), priority=self._level(task.priority)
        )
        result = dataclasses.replace(result, id=_id_of(message_id, task.queue_name))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the result of a task: its value for `keep_result`, or the error of its dead letter.

        Raises:
            TaskResultDoesNotExist: The message of the task was deleted, or there never was one.
        """
        if not self.supports_get_result:
            return super().get_result(result_id)
        parts = re.fullmatch(r"(\d{1,18}):(.+)", result_id)
        if parts is None or (self.queues and parts[2] not in self.queues):
            raise TaskResultDoesNotExist(result_id)
        message_id, queue_name = int(parts[1]), parts[2]
        queues = WorkQueue(connections[self._using])
        try:
            kept = Operations(connections[self._using]).get_result(queue_name, message_id)
            stored = queues.get_messages(queue_name, [message_id])
        except QueueNotFoundError:
            raise TaskResultDoesNotExist(result_id) from None
        # Dead letters outlive their queue: one may have the id of a message of a queue that was created again.
        stored = [each for each in stored if (each.state == "dead") is (kept.state == "dead")]
        if not stored or kept.state not in _STATUSES:
            raise TaskResultDoesNotExist(result_id)
        found, status = stored[-1], _STATUSES[kept.state]
        task = import_string(found.message["task"]).using(queue_name=queue_name, backend=self.alias)
        result = self._result(task, result_id, status, _as_set(found.enqueued_at), found.message)
        _set(result, _return_value=kept.result, finished_at=_as_set(found.archived_at))
        result.worker_ids.extend([""] * found.read_ct)
        if (read_at := _as_set(found.last_read_at)) is not None:
            _set(result, started_at=read_at, last_attempted_at=read_at)
        if status == TaskResultStatus.FAILED:
            self._add_error(result, queue_name, message_id)
        return result

    def _add_error(self, result: Any, queue_name: str, message_id: int) -> None:
        for dead in DeadLetters(connections[self._using], queue_name).browse(msg_ids=[message_id]):
            trace = dead.trace or dead.error or dead.reason
            error = TaskError(
                exception_class_path=_path_of(dead.error_type, trace), traceback=trace
            )
            result.errors[:] = [error]
            _set(result, finished_at=_as_set(dead.dead_at))

    def _level(self, priority: int) -> int | None:
        """Return the priority of the queue, 1 being the most urgent, for that of a task, 100 being the most urgent."""
        if self._priorities is None:
            return None
        share = (_MOST_URGENT - priority) / (_MOST_URGENT - _LEAST_URGENT + 1)
        return 1 + int(share * self._priorities)

    def _handler(self, queue_name: str) -> Handler[Any, ..., Any]:
        if (found := self._handlers.get(queue_name)) is not None:
            return found

        def run(payload: dict[str, Any], context: SyncContext) -> Any:
            return self._run(queue_name, payload, context)

        made: Handler[Any, ..., Any]
        make = self.app.handler(queue_name, name=f"tasks of {queue_name}", **self._handler_options)
        made = make(run)
        self._handlers[queue_name] = made
        return made

    def _run(self, queue_name: str, payload: dict[str, Any], context: SyncContext) -> Any:
        """Run a task; return its value, or raise its exception."""
        task = import_string(payload["task"])
        if not isinstance(task, Task):
            raise Reject(f"{payload['task']} is not a task")
        task = task.using(queue_name=queue_name, backend=self.alias)
        identity, sent_at = _id_of(context.message_id, queue_name), _as_set(context.sent_at)
        result = self._result(task, identity, TaskResultStatus.RUNNING, sent_at, payload)
        now = timezone.now()
        _set(result, started_at=now, last_attempted_at=now)
        # An entry for each attempt; the workers of the others are unknown.
        result.worker_ids.extend([""] * (context.attempt - 1))
        result.worker_ids.append(f"{socket.gethostname()}:{os.getpid()}")
        task_started.send(type(self), task_result=result)
        arguments = [TaskContext(task_result=result)] if task.takes_context else []
        try:
            value = normalize_json(task.call(*arguments, *result.args, **result.kwargs))
        except BaseException as error:
            result.errors.append(_error_of(error))
            self._finish(result, TaskResultStatus.FAILED)
            raise
        _set(result, _return_value=value)
        self._finish(result, TaskResultStatus.SUCCESSFUL)
        return value

    def _finish(self, result: Any, status: Any) -> None:
        _set(result, status=status, finished_at=timezone.now())
        task_finished.send(type(self), task_result=result)

    def _result(
        self,
        task: Any,
        identity: str,
        status: Any,
        enqueued_at: datetime | None,
        call: Mapping[str, Any],
    ) -> Any:
        return TaskResult(
            task=task,
            id=identity,
            status=status,
            enqueued_at=enqueued_at,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=call["args"],
            kwargs=call["kwargs"],
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )


def backends() -> Iterator[PgsluiceBackend]:
    """Yield the backends of `TASKS` that are on work queues."""
    for alias in task_backends:
        backend = task_backends[alias]
        if isinstance(backend, PgsluiceBackend):
            yield backend


def _id_of(message_id: int | None, queue_name: str) -> str:
    return f"{message_id}:{queue_name}"


def _set(result: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)  # a frozen record, as Django's own backends do


def _error_of(error: BaseException) -> Any:
    kind = type(error)
    return TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
        traceback="".join(traceback.format_exception(error)),
    )


def _aware(time: datetime | None) -> datetime | None:
    return time if time is None or timezone.is_aware(time) else timezone.make_aware(time)


def _as_set(time: datetime | None) -> datetime | None:
    """Return a time as `timezone.now()` does, by `USE_TZ`."""
    return time if time is None or settings.USE_TZ else timezone.make_naive(time)


def _path_of(error_type: str | None, trace: str) -> str:
    """Return the path of an exception's class, from the last line of its traceback that names it."""
    if error_type is not None:
        for line in reversed(trace.splitlines()):
            if found := re.match(rf"((?:[\w.]+\.)?{re.escape(error_type)})(?::|$)", line):
                return found[1] if "." in found[1] else f"builtins.{found[1]}"
    return f"{HandlerError.__module__}.{HandlerError.__qualname__}"  # such as a timeout
