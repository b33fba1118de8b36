"""Apps without a server: handler declarations, errors at import, and sends."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice.client.log_records import NewEvent
from pgsluice.errors import ArgumentError, PayloadError
from pgsluice.worker import App, Batch, Execution, Handler, Mode, RetryPolicy
from pgsluice.worker.handlers.handler import ConsumerRoute, GroupRoute, Limits, QueueRoute
from pgsluice.worker.handlers.middleware import around
from pgsluice.worker.upkeep.schedules import ScheduleSpec

if TYPE_CHECKING:
    from pgsluice.nowhere import Missing

ROOT = Path(__file__).parents[2]


@dataclass
class Order:
    id: int


app = App(name="shop")


@app.handler(
    "mail", retry=RetryPolicy(max_attempts=3), timeout_s=60, retry_on=[OSError], keep="delete"
)
async def send_receipt(order: Order, context: Missing) -> str:
    """Send a receipt."""
    return f"receipt {order.id}"


@app.handler(queue="clicks", batch=Batch(size=500), rate=10, rate_s=2, weight=3, concurrency=2)
def load(items: list[Order]) -> None: ...


@app.handler(topic="orders.*.paid", queue="Paid", execution="process", name="paid", mode="lease")
def on_paid(order): ...


@app.handler(log="orders", group="mailers", event_types=["order.paid", "order.sent"])
def paid_event(order: Order): ...


@app.handler(log="orders", group="mailers")
def other_event(order: str, context=None, *rest, more=1, **options): ...


@app.handler(log="orders", consumer="ledger", event_types=["order.paid"])
def ledger(order: Order): ...


def test_a_function_becomes_a_handler_as_it_was_declared():
    assert list(app.handlers) == [
        "send_receipt",
        "load",
        "paid",
        "paid_event",
        "other_event",
        "ledger",
    ]
    spec = app.handlers["send_receipt"]
    assert spec is send_receipt.spec
    assert (spec.route, spec.execution, spec.mode) == (
        QueueRoute("mail"),
        Execution.LOOP,
        Mode.LEASE,
    )
    assert (spec.retry, spec.timeout_s, spec.lease_s) == (RetryPolicy(max_attempts=3), 60, 30)
    assert (spec.takes_context, spec.retry_on, spec.keep) == (True, (OSError,), "delete")
    assert spec.decode({"id": 1}) == Order(1)
    spec = load.spec
    assert (spec.execution, spec.takes_context, spec.batch) == (Execution.THREAD, False, Batch(500))
    assert spec.limits == Limits(concurrency=2, rate=10, rate_s=2, weight=3)
    assert spec.decode({"id": 1}) == Order(1)  # decodes one payload, also for a batch handler
    assert on_paid.spec.route == QueueRoute("Paid", "orders.*.paid")
    assert on_paid.spec.execution is Execution.PROCESS
    assert on_paid.spec.decode({"any": "thing"}) == {"any": "thing"}
    assert paid_event.spec.route == GroupRoute("orders", "mailers", ("order.paid", "order.sent"))
    assert paid_event.spec.decode('{"id": 1}') == Order(1)
    assert other_event.spec.route == GroupRoute("orders", "mailers")
    assert (other_event.spec.takes_context, other_event.spec.decode("text")) == (True, "text")
    assert ledger.spec.route == ConsumerRoute("orders", "ledger", ("order.paid",))


def test_the_handler_is_still_the_function():
    assert asyncio.run(send_receipt(Order(7), None)) == "receipt 7"
    assert (send_receipt.__name__, send_receipt.__doc__) == ("send_receipt", "Send a receipt.")
    assert list(inspect.signature(send_receipt).parameters) == ["order", "context"]
    assert repr(send_receipt) == "<handler 'send_receipt' of queue 'mail'>"
    assert repr(app) == "<App 'shop' with 6 handlers>"


@pytest.mark.slow
def test_another_process_finds_a_handler_by_its_name(tmp_path):
    (tmp_path / "shop.py").write_text(
        "from pgsluice.worker import App\n"
        "app = App()\n"
        "@app.handler('sums', execution='process')\n"
        "def add(numbers: list[int]) -> int:\n"
        "    return sum(numbers)\n"
    )
    pickled = "import sys, pickle, shop; sys.stdout.buffer.write(pickle.dumps(shop.add))"
    unpickled = "import sys, pickle; add = pickle.loads(sys.stdin.buffer.read()); print(add.spec.name, add([1, 2]))"

    first = subprocess.run(
        [sys.executable, "-c", pickled], cwd=tmp_path, capture_output=True, check=True
    )
    second = subprocess.run(
        [sys.executable, "-c", unpickled],
        cwd=tmp_path,
        input=first.stdout,
        capture_output=True,
        check=True,
    )

    assert second.stdout == b"add 3\n"
    assert pickle.loads(pickle.dumps(RetryPolicy(backoff="linear"))) == RetryPolicy(
        backoff="linear"
    )


def plain(order): ...


async def plain_async(order): ...


def takes_nothing(): ...


def takes_three(order, context, third): ...


def takes_named(order, *, third): ...


def takes_unknown(order: Missing): ...


def takes_one(order: Order): ...


def gives(order):
    yield


class Methods:
    def handle(self, order): ...


REFUSED = [
    ({}, plain, "a handler needs a source"),
    ({"queue": ""}, plain, "queue is ''; use a name"),
    ({"queue": plain}, plain, "queue is <function plain"),  # @app.handler without parentheses
    ({"topic": "a.*"}, plain, "a handler needs a source"),
    ({"group": "g"}, plain, "group, consumer and event_types require log="),
    ({"queue": "q", "event_types": ["a"]}, plain, "event_types require log="),
    ({"queue": "q", "log": "l", "group": "g"}, plain, "queue and log are mutually exclusive"),
    ({"log": "l"}, plain, "a handler of log 'l' needs group=, .* or consumer="),
    ({"log": "l", "group": "g", "consumer": "c"}, plain, "a handler of log 'l' needs group="),
    ({"log": "l", "group": "g", "event_types": "paid"}, plain, "event_types is of type str; pass a list"),
    ({"log": "l", "group": "g", "event_types": 5}, plain, "event_types is of type int; pass a list of types"),
    ({"queue": "q", "retry_on": OSError}, plain, "retry_on is of type type; pass a list of exception classes"),
    ({"queue": "q", "give_up_on": OSError}, plain, "give_up_on is of type type; pass a list"),
    ({"queue": "q", "concurrency": 2.5}, plain, "concurrency of handler 'plain' is 2.5; use a whole number, 1 or more"),
    ({"queue": "q", "name": 5}, plain, "name is 5; use a name"),
    ({"log": "l", "group": "g", "event_types": ["a", "a"]}, plain, "repeated type 'a' in event_types"),
    ({"queue": "q"}, print, "print> is not a function; decorate a `def`"),
    ({"queue": "q"}, Methods.handle, "Methods.handle is a method; decorate a function"),
    ({"queue": "q"}, gives, "gives is a generator; a handler must return or raise"),
    ({"queue": "q", "retries": 5}, plain, r"handler\(\) has no option 'retries'; use batch, topic, .*, retry, .* weight$"),
    ({"queue": "q"}, takes_nothing, "takes_nothing takes no payload"),
    ({"queue": "q"}, takes_three, "takes_three has extra required parameters: third"),
    ({"queue": "q"}, takes_named, "takes_named has extra required parameters: third"),
    ({"queue": "q"}, takes_unknown, "an annotation of .*takes_unknown refers to 'Missing', which is not defined"),
    ({"queue": "q", "batch": Batch(5)}, takes_one, "takes_one is a batch handler, but its order is not a list"),
    ({"queue": "q", "execution": "process"}, plain_async, "plain_async is `async def`.* to run it in a process"),
    ({"queue": "q", "execution": "thread"}, plain_async, "to run it in a thread"),
    ({"queue": "q", "execution": "loop"}, plain, "plain would block the event loop"),
    ({"queue": "q", "execution": "process"}, lambda order: None, "cannot be imported by a handler process"),
    ({"queue": "q", "execution": "gpu"}, plain, "execution is 'gpu'; use loop, thread, process"),
    ({"queue": "q", "mode": "exactly_once"}, plain, "mode is 'exactly_once'; use lease, transaction"),
    ({"queue": "q", "keep": "forever"}, plain, "keep is 'forever'; use archive, delete"),
    ({"log": "l", "group": "g", "mode": "transaction"}, plain, "'plain' is for a log, but mode='transaction' is for queues"),
    ({"queue": "q", "mode": "transaction", "batch": Batch(2)}, plain, "omit batch, or the mode"),
    ({"queue": "q", "mode": "transaction", "execution": "process"}, plain, "omit execution='process', or the mode"),
    ({"queue": "q", "batch": Batch(1)}, plain, "batch.size of handler 'plain' is 1; use a whole number, 2 or more"),
    ({"queue": "q", "batch": Batch(2, -1)}, plain, "batch.wait_s of handler 'plain' is -1; use 0 or more seconds"),
    ({"queue": "q", "batch": 500}, plain, r"batch of handler 'plain' is 500; use Batch\(…\)"),
    ({"queue": "q", "retry": 5}, plain, r"retry of handler 'plain' is 5; use RetryPolicy\(…\)"),
    ({"queue": "q", "timeout_s": "60"}, plain, "timeout_s of handler 'plain' is '60'; use 0.001 or more seconds"),
    ({"queue": "q", "concurrency": 0}, plain, "concurrency of handler 'plain' is 0; use a whole number, 1 or more"),
    ({"queue": "q", "rate_s": 0}, plain, "rate_s of handler 'plain' is 0"),
    ({"queue": "q", "timeout_s": float("nan")}, plain, "timeout_s of handler 'plain' is nan"),
    ({"queue": "q", "lease_s": 1}, plain, "lease_s of handler 'plain' is 1; use more than 1 second"),
    ({"queue": "q", "retry_on": ["OSError"]}, plain, "retry_on of handler 'plain' is 'OSError'; use exception classes"),
    ({"log": "l", "group": "g", "rate": 5}, plain, "'plain' is for a log, which does not support rate; omit it"),
    ({"log": "l", "consumer": "c", "concurrency": 2}, plain, "which does not support concurrency"),
    ({"log": "l", "consumer": "c", "batch": Batch(2)}, plain, "for a consumer, which handles events one by one"),
    ({"queue": "q", "dead_letters": True}, plain, "dead_letters requires consumer="),
    ({"log": "orders", "consumer": "ledger", "event_types": ["x"], "dead_letters": True}, plain,
     "'ledger' and 'plain' of one consumer differ in dead_letters"),
    ({"queue": "other", "name": "paid"}, plain, "plain and .*on_paid are both named 'paid'"),
    ({"queue": "paid"}, plain, "handlers 'paid' and 'plain' are both for queue 'paid'"),  # same table as 'Paid'
    ({"log": "orders", "group": "mailers"}, plain, "'other_event' and 'plain' are both for events of group 'mailers' of log 'orders' that no"),
    ({"log": "orders", "group": "mailers", "event_types": ["x", "order.sent"]}, plain,
     "'paid_event' and 'plain' are both for events of type 'order.sent' of group 'mailers'"),
    ({"log": "orders", "group": "ledger"}, plain, "'ledger' and 'plain' use a consumer and a group of the same name in one log"),
]  # fmt: skip


def test_consumer_dead_letters_if_declared():
    other = App()
    for kind in ("a", "b"):
        other.handler(log="l", consumer="c", event_types=[kind], name=kind, dead_letters=True)(
            plain
        )

    assert [spec.route for spec in other.handlers.values()] == [
        ConsumerRoute("l", "c", (kind,), dead_letters=True) for kind in ("a", "b")
    ]


@pytest.mark.parametrize(("options", "function", "words"), REFUSED)
def test_invalid_handler_is_refused_and_the_app_is_unchanged(options, function, words):
    before = list(app.handlers)

    with pytest.raises(ArgumentError, match=words):
        app.handler(**options)(function)

    assert list(app.handlers) == before


def test_middleware_is_around_a_call_the_first_outermost():
    other, calls = App(), []

    def make(name):
        @other.middleware
        async def note(call, payload, context):
            calls.append(f"{name} before {payload}")
            result = await call(payload + 1, context)
            calls.append(f"{name} after {result}")
            return result * 2

    make("a")
    make("b")

    async def call(payload, context):
        return payload * 10

    assert asyncio.run(around(other.middlewares, call)(1, None)) == 120
    assert calls == ["a before 1", "b before 2", "b after 30", "a after 60"]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            takes_nothing,
            r"middleware takes_nothing must take \(call, payload, context\), and return call\(",
        ),
        (plain_async, r"plain_async must take \(call, payload, context\)"),
    ],
)
def test_invalid_middleware_is_refused(function, words):
    with pytest.raises(ArgumentError, match=words):
        App().middleware(function)


def call_of(handler: Handler, payload: Any, **options: Any) -> tuple:
    call = handler.sending.one(payload, options)
    return tuple(getattr(each, "obj", each) for each in call.parameters)


def test_a_message_has_its_key_among_its_headers():
    assert call_of(send_receipt, Order(1)) == ("mail", {"id": 1}, None, 0)
    sent = call_of(send_receipt, Order(1), key="k", headers={"h": 2}, delay_s=5)
    assert sent == ("mail", {"id": 1}, {"h": 2, "x-pgmq-group": "k"}, 5)
    assert call_of(load, Order(1), deduplication_key="d") == ("clicks", {"id": 1}, "d", None, 0)


def test_an_event_has_its_type_and_its_key_in_the_first_extra_field():
    assert call_of(ledger, Order(1), key="k", headers={"ev_extra3": "x"}) == (
        "orders", "order.paid", '{"id":1}', "k", None, "x", None,
    )  # fmt: skip
    assert call_of(paid_event, Order(1), event_type="order.sent")[:3] == (
        "orders",
        "order.sent",
        '{"id":1}',
    )
    assert call_of(other_event, "text", event_type="any", delay_s=3)[:4] == (
        "orders",
        "any",
        "text",
        3,
    )


@pytest.mark.parametrize(
    ("handler", "payload", "options", "error", "words"),
    [
        (send_receipt, {"id": 1}, {}, PayloadError, "payload is of type dict; it must be Order"),
        (send_receipt, Order("x"), {}, PayloadError, "payload.id is of type str; it must be int"),
        (load, [Order(1)], {}, PayloadError, "payload is of type list; it must be Order"),
        (send_receipt, Order(1), {"headers": {"a": {1}}}, PayloadError, r"headers\['a'\] is of type set"),
        (send_receipt, Order(1), {"key": 7}, ArgumentError, "key is of type int; use a str"),
        (send_receipt, Order(1), {"key": "a", "headers": {"x-pgmq-group": "b"}}, ArgumentError, "differ; omit one"),
        (send_receipt, Order(1), {"event_type": "t"}, ArgumentError, "'send_receipt' is for a queue, which does not support event_type"),
        (send_receipt, Order(1), {"delay_s": -1}, ArgumentError, "delay_s is -1"),
        (ledger, Order(1), {"deduplication_key": "d"}, ArgumentError, "'ledger' is for a log, which does not support deduplication_key"),
        (ledger, Order(1), {"event_type": "order.sent"}, ArgumentError, "'ledger' does not handle events of type 'order.sent'; use 'order.paid'"),
        (paid_event, Order(1), {}, ArgumentError, "'paid_event' handles several event types; choose one with event_type="),
        (other_event, "a", {}, ArgumentError, "'other_event' handles any event type"),
        (ledger, Order(1), {"headers": {"trace": "1"}}, ArgumentError, "an event has no header 'trace'; use ev_extra1"),
        (ledger, Order(1), {"headers": {"ev_extra2": 1}}, PayloadError, "ev_extra2 is of type int"),
        (other_event, "\0", {"event_type": "t"}, PayloadError, "NUL"),
    ],
)  # fmt: skip
def test_unsendable_payload_is_refused_before_connecting(handler, payload, options, error, words):
    with pytest.raises(error, match=words):
        call_of(handler, payload, **options)


def test_many_are_one_call_and_an_error_names_which_one(monkeypatch):
    def no_server(*_arguments, **_options):
        raise AssertionError("something was connected")

    monkeypatch.setattr("pgsluice.pools.connect", no_server)
    with pytest.raises(PayloadError, match=r"payloads\[1\].id is of type str; it must be int"):
        load.send_many([Order(1), Order("x")])
    with pytest.raises(PayloadError, match=r"payloads\[1\].id is of type str"):
        ledger.send_many([Order(1), Order("x")])
    with pytest.raises(ArgumentError, match="there are 1 keys for 2 payloads"):
        load.send_many([Order(1), Order(2)], keys=["a"])
    for option in ("keys", "deduplication_keys"):
        for one in ("ab", {"a", "b"}, {"a": 1, "b": 2}, iter("ab"), 2):
            with pytest.raises(ArgumentError, match=f"{option} is of type .*pass a list of "):
                load.send_many([Order(1), Order(2)], **{option: one})
    with pytest.raises(ArgumentError, match="payloads is a single dict; pass a list"):
        on_paid.send_many({"a": 1})
    with pytest.raises(ArgumentError, match="delay_s and at are mutually exclusive"):
        load.send(Order(1), delay_s=1, at=datetime.now(UTC))
    with pytest.raises(
        ArgumentError, match=r"send\(\) has no option 'dely_s'; use delay_s, at, priority, "
    ):
        load.send(Order(1), dely_s=1)
    with pytest.raises(
        ArgumentError, match=r"send_many\(\) has no option 'key'; use delay_s, .*, keys"
    ):
        load.send_many([Order(1)], key="a")
    with pytest.raises(ArgumentError, match="delay_s is -1; use 0 to"):
        load.send(Order(1), delay_s=-1)
    with pytest.raises(ArgumentError, match="at is a datetime without a time zone"):
        load.send(Order(1), at=datetime.now(UTC).replace(tzinfo=None))
    assert load.send_many([]) == []
    assert asyncio.run(load.send_many_async(iter(()))) == []


def test_a_schedule_keeps_what_is_sent_each_time():
    other = App()
    other.schedule(
        "nightly",
        handler=send_receipt,
        payload=Order(1),
        cron="0 3 * * *",
        time_zone="Europe/Berlin",
        key="k",
    )
    other.schedule(
        "often", handler=ledger, payload=Order(2), every_s=0.5, catch_up="none", jitter_s=0.1
    )

    assert other.schedules == {
        "nightly": ScheduleSpec(
            name="nightly", queue_name="mail", message={"id": 1}, headers={"x-pgmq-group": "k"},
            timing={"cron": "0 3 * * *", "time_zone": "Europe/Berlin"},
        ),
        "often": ScheduleSpec(
            name="often", queue_name="orders", event=NewEvent("order.paid", '{"id":2}'),
            timing={"every_s": 0.5, "catch_up": "none", "jitter_s": 0.1},
        ),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "schedule 'often' needs either cron= or every_s="),
        ({"cron": "@daily", "every_s": 1}, "needs either cron= or every_s="),
        ({"evry_s": 1}, r"schedule\(\) has no option 'evry_s'; use cron, every_s, "),
        ({"cron": "@daily", "declared_by": "me"}, r"schedule\(\) has no option 'declared_by'"),
        ({"every_s": 0}, "every_s of schedule 'often' is 0; use 0.1 or more seconds"),
        ({"every_s": float("nan")}, "every_s of schedule 'often' is nan"),
        ({"every_s": "5"}, "every_s of schedule 'often' is '5'; use 0.1 or more seconds"),
        ({"cron": 5}, "cron of schedule 'often' is of type int; use a str"),
        ({"cron": "@daily", "name": 5}, "name of the schedule is of type int; use a str"),
        ({"cron": "@daily", "jitter_s": -1}, "jitter_s of schedule 'often' is -1"),
        (
            {"cron": "@daily", "catch_up": "most"},
            "catch_up of schedule 'often' is 'most'; use none, one, all",
        ),
        (
            {"cron": "@daily", "starts_at": datetime.now(UTC).replace(tzinfo=None)},
            "starts_at is a datetime without a time zone",
        ),
        ({"cron": "@daily", "payload": Order("x")}, "payload.id is of type str"),
        ({"cron": "@daily", "handler": plain}, "handler of schedule 'often' is <function plain"),
        ({"cron": "@daily", "name": "taken"}, "schedule 'taken' is declared twice"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused(options, words):
    other = App()
    other.schedule("taken", handler=send_receipt, payload=Order(1), cron="@daily")
    name = options.pop("name", "often")

    with pytest.raises((ArgumentError, PayloadError), match=words):
        other.schedule(name, **{"handler": send_receipt, "payload": Order(1), **options})

    assert list(other.schedules) == ["taken"]


TYPED = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Any
from pgsluice.worker import Outcome, App, Batch, Context

@dataclass
class Order:
    id: int

app = App()

@app.handler("mail", timeout_s=60)
async def send_receipt(order: Order, context: Context) -> None: ...

@app.handler("clicks", batch=Batch(size=500))
def load(items: list[Order]) -> list[Outcome | None] | None: ...

async def main() -> None:
    send_receipt.send(Order(1), delay_s=30)
    load.send_many([Order(1)])
    load([Order(1)])
    await send_receipt.send_async("x")  # wrong
    load.send([Order(1)])  # wrong
    load(Order(1))  # wrong
    app.handler("mails", concurency=1)  # wrong
"""


@pytest.mark.slow
def test_a_type_checker_knows_what_may_be_sent(tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    wrong = [i for i, line in enumerate(TYPED.splitlines(), 1) if line.endswith("# wrong")]

    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context",
         "--cache-dir", ROOT / ".mypy_cache", tmp_path / "typed.py"],
        capture_output=True, text=True, env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
    )  # fmt: skip

    errors = [line for line in ran.stdout.splitlines() if "typed.py" in line and ": error:" in line]
    assert sorted({int(line.split(":")[1]) for line in errors}) == wrong, ran.stdout + ran.stderr
