"""Sources on a real server: claims, starts, leases and outcomes, in bulk and with lost replies."""

from __future__ import annotations

import asyncio
import gc
import itertools
from types import SimpleNamespace

import psycopg
import pytest

from pgsluice import EventLog, WorkQueue
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.errors import (
    ConfigurationError,
    ConnectionFailedError,
    LeaseLostError,
    LogNotFoundError,
    QueueNotFoundError,
)
from pgsluice.outcome import Done, Reject, Release, Retry
from pgsluice.worker import App, Context, Worker
from pgsluice.worker.engine.claim.group_source import GroupSource, _Claim
from pgsluice.worker.engine.claim.sources import make_feeds
from pgsluice.worker.engine.delivery import Failure, Settlement
from pgsluice.worker.handlers.handler import GroupRoute, QueueRoute
from pgsluice.worker.handlers.retry import RetryPolicy
from support import rows, value
from support.runtime import until
from support.sources import make_source, pool_of, spec

FAILURE = Failure("ValueError", "no such customer", "the trace")


def with_source(url, work, route, *, prepared=True, **fields):
    """Return the result of `await work(source)` with a new source."""

    async def main():
        async with pool_of(url) as pool:
            source = make_source(spec(route, **fields), pool, None, "tester")
            if prepared:
                await source.prepare()
            try:
                async with asyncio.timeout(60):
                    return await work(source)
            finally:
                await source.close()

    return asyncio.run(main())


@pytest.fixture
def on_queue(worker_url, queue_name):
    return lambda work, **fields: with_source(worker_url, work, QueueRoute(queue_name), **fields)


class LosesReplies:
    """Runs calls, and loses the reply of the first one after the server has executed it."""

    def __init__(self, runner: AsyncRunner) -> None:
        self._runner = runner
        self.lost = 0

    async def run(self, call):
        return self._lose(await self._runner.run(call))

    async def run_steps(self, steps):
        return self._lose(await self._runner.run_steps(steps))

    def _lose(self, result):
        self.lost += 1
        if self.lost == 1:
            raise ConnectionFailedError("the reply was lost")
        return result


def settlements(deliveries, *outcomes):
    return {
        delivery: Settlement(outcome, FAILURE if isinstance(outcome, Retry | Reject) else None)
        for delivery, outcome in zip(deliveries, outcomes, strict=True)
    }


def first(settlements, qty):
    return dict(itertools.islice(settlements.items(), qty))


def results(settled):
    return [settlement.result for settlement in settled.values()]


def where(observer, queue_name):
    """Return the location of each message, by payload."""
    return dict(
        rows(
            observer,
            f"""select message, case when vt > clock_timestamp() then 'hidden' else 'ready' end from pgmq.q_{queue_name}
            union all select message, 'archived' from pgmq.a_{queue_name}
            union all select message, 'dead' from sluice.dead_letter where queue_name = '{queue_name}'""",
        )
    )


def make_log(observer, name):
    observer.execute("select pgq.create_queue(%s)", [name])
    return name


@pytest.fixture
def log_name(observer, queue_name):
    return make_log(observer, f"log_{queue_name}")


def send_events(observer, log_name, *datas, ev_type="t"):
    log = EventLog(observer)
    return [log.insert_event(log_name, ev_type, data) for data in datas]


# Work queues --------------------------------------------------------------------------------------


def test_a_claim_says_all_there_is_to_know_of_a_message(on_queue, observer, queue_name):
    WorkQueue(observer).send(queue_name, {"n": 1}, headers={"x-pgmq-group": "ann", "h": 2})

    async def work(source):
        (delivery,) = await source.claim(5, 20)
        assert await source.claim(5, 20) == []
        return source.name, delivery

    name, delivery = on_queue(work)

    assert name == delivery.source_name == f"queue {queue_name}"
    assert (delivery.payload, delivery.key, delivery.headers["h"]) == ({"n": 1}, "ann", 2)
    assert (delivery.fence, delivery.attempt) == (1, 1)
    assert delivery.sent_at == value(observer, f"select enqueued_at from pgmq.q_{queue_name}")


@pytest.mark.parametrize("is_noticed", [False, True], ids=["before", "after"])
def test_claims_of_a_dropped_queue_do_not_touch_the_messages_of_its_successor(
    on_queue, observer, queue_name, is_noticed
):
    """Their numbers are the same: the worker's claims and those of another reader after drop and create."""
    queue, payloads = WorkQueue(observer), list("abcdef")
    queue.send_batch(queue_name, payloads)
    outcomes = [Done(), Retry(), Retry(0), Reject("bad"), Release(), Release(30)]
    of_successor = f"select msg_id, read_ct, vt, message from pgmq.q_{queue_name} order by 1"

    async def work(source):
        claimed = await source.claim(6, 20)
        observer.execute("select pgmq.drop_queue(%s), pgmq.create(%s)", [queue_name, queue_name])
        if is_noticed:
            assert await source.claim(6, 20) == []
        queue.send_batch(queue_name, payloads)
        queue.read(queue_name, 600, 6)
        before = rows(observer, of_successor)
        assert [row[:2] for row in before] == [(each.message_id, each.fence) for each in claimed]

        assert await source.begin(claimed) == []
        assert await source.extend(claimed, 60) == claimed
        settled = await source.settle(settlements(claimed, *outcomes))
        done = await source.settle(dict.fromkeys(claimed, Settlement(Done())))
        careful = await source.settle({claimed[0]: Settlement(Done())}, wait_s=1.0)
        with pytest.raises(QueueNotFoundError, match="created again"):
            await source._runner.run(source.acknowledgement(claimed[0]))
        return before, results(settled), results(done), results(careful)

    before, *lost = on_queue(work, retry=RetryPolicy(max_attempts=1))

    assert rows(observer, of_successor) == before
    assert where(observer, queue_name) == dict.fromkeys(payloads, "hidden")
    assert (
        value(observer, "select count(*) from sluice.attempt where queue_name = %s", queue_name)
        == 0
    )
    assert lost == [["lost"] * 6, ["lost"] * 6, ["lost"]]


async def test_a_transaction_does_not_acknowledge_a_message_of_a_queue_created_again(
    worker_url, observer, queue_name
):
    app, queue, raised = App(worker_url, name="tests"), WorkQueue(observer), []

    @app.handler(queue_name)
    async def handle(_payload: str, context: Context):
        try:
            async with context.transaction():
                observer.execute(
                    "select pgmq.drop_queue(%s), pgmq.create(%s)", [queue_name, queue_name]
                )
                queue.send(queue_name, "new")
                queue.read(queue_name, 600)
        except LeaseLostError as error:
            raised.append(error)
            raise

    queue.send(queue_name, "old")
    await Worker(app).run_until_empty(idle_s=0)

    assert len(raised) == 1
    assert where(observer, queue_name) == {"new": "hidden"}


def test_each_outcome_is_settled_in_one_call_of_settle(on_queue, observer, queue_name):
    WorkQueue(observer).send_batch(queue_name, list("abcdef"))

    async def work(source):
        deliveries = await source.begin(await source.claim(10, 30))
        return await source.settle(
            settlements(deliveries, Done(), Retry(60), Reject("bad"), Release(), Retry(), Done())
        )

    settled = on_queue(work)

    assert results(settled) == ["done", "retry", "dead", "released", "retry", "done"]
    assert [delivery.payload for delivery in settled] == list("abcdef")
    assert where(observer, queue_name) == {
        "a": "archived", "b": "hidden", "c": "dead", "d": "ready", "e": "hidden", "f": "archived",
    }  # fmt: skip
    assert rows(
        observer,
        "select reason, error_type, error, attempts, worker from sluice.dead_letter where queue_name = %s",
        queue_name,
    ) == [("bad", "ValueError", "no such customer", 1, "tester")]


def test_done_messages_are_deleted_when_configured(on_queue, observer, queue_name):
    WorkQueue(observer).send_batch(queue_name, ["a", "b"])

    async def work(source):
        return await source.settle(settlements(await source.claim(10, 30), Done(), Done()))

    assert results(on_queue(work, keep="delete")) == ["done", "done"]
    assert where(observer, queue_name) == {}


def test_attempts_are_counted_by_the_policy_of_the_handler(on_queue, observer, queue_name):
    WorkQueue(observer).send(queue_name, "fails")

    async def work(source):
        seen = []
        while deliveries := await source.begin(await source.claim(1, 30)):
            seen.append(deliveries[0].attempt)
            seen += results(await source.settle(settlements(deliveries, Retry())))
        return seen

    seen = on_queue(work, retry=RetryPolicy(max_attempts=3, backoff_base_s=0))

    assert seen == [1, "retry", 2, "retry", 3, "dead"]


def test_start_without_outcome_counts_as_attempt_and_the_last_is_not_started(
    on_queue, observer, queue_name
):
    WorkQueue(observer).send_batch(queue_name, ["kills", "waits"])

    async def work(source):
        begun = []
        for _ in range(4):
            claimed = await source.claim(2, 30)
            started = await source.begin(claimed[:1])
            begun.append([delivery.attempt for delivery in started])
            # The worker dies; the other message was released before its start.
            await source.settle({each: Settlement(Release()) for each in claimed[1:]})
            observer.execute(f"update pgmq.q_{queue_name} set vt = clock_timestamp()")
        return begun

    begun = on_queue(work, retry=RetryPolicy(max_attempts=2))

    assert begun == [[1], [2], [], [1]], (
        "the third claim dead-letters one, the fourth returns the other"
    )
    assert where(observer, queue_name) == {"kills": "dead", "waits": "ready"}


def test_with_one_attempt_the_first_start_is_noted_also_by_the_policy_of_the_queue(
    on_queue, observer, queue_name
):
    WorkQueue(observer).set_queue_options(queue_name, max_attempts=1)
    WorkQueue(observer).send(queue_name, "kills")

    async def work(source):
        first = await source.begin(await source.claim(1, 30))
        observer.execute(f"update pgmq.q_{queue_name} set vt = clock_timestamp()")
        return len(first), len(await source.begin(await source.claim(1, 30)))

    assert on_queue(work) == (1, 0)
    assert where(observer, queue_name) == {"kills": "dead"}


def test_expired_claim_is_lost_to_its_holder(on_queue, observer, queue_name):
    WorkQueue(observer).send_batch(queue_name, ["mine", "yours"])

    async def work(source):
        deliveries = await source.claim(2, 30)
        observer.execute(
            f"update pgmq.q_{queue_name} set read_ct = read_ct + 1 where message = '\"yours\"'"
        )
        lost = await source.extend(deliveries, 50)
        settled = [
            results(await source.settle({deliveries[1]: Settlement(outcome, FAILURE)}))
            for outcome in (Done(), Retry(), Reject(), Release())
        ]
        return [delivery.payload for delivery in lost], settled, deliveries

    lost, settled, deliveries = on_queue(work)

    assert lost == ["yours"]
    assert settled == [["lost"]] * 4
    assert deliveries[0].lease_end_s - deliveries[1].lease_end_s > 15, "only one lease was extended"


def test_acknowledgement_with_a_lost_reply_is_recognised_as_done(on_queue, observer, queue_name):
    WorkQueue(observer).send_batch(queue_name, list("abcd"))

    async def work(source):
        deliveries = await source.begin(await source.claim(4, 30))
        requested = settlements(deliveries, Done(), Retry(60), Reject("bad"), Release(60))
        source._runner = LosesReplies(source._runner)
        with pytest.raises(ConnectionFailedError):
            await source.settle(requested)
        return [await source.settle(requested), await source.settle(first(requested, 1))]

    again, once_more = on_queue(work)

    assert results(again) == ["done", "retry", "dead", "released"]
    assert results(once_more) == ["lost"], "after the reply, settlements are not recognised"
    assert (
        value(observer, "select count(*) from sluice.dead_letter where queue_name = %s", queue_name)
        == 1
    )


def test_message_claimed_again_after_a_lost_reply_is_recognised_as_done(
    on_queue, observer, queue_name
):
    WorkQueue(observer).send_batch(queue_name, list("abcd"))

    async def work(source):
        deliveries = await source.begin(await source.claim(4, 30))
        requested = settlements(deliveries, Retry(0), Release(0), Retry(0), Reject("bad"))
        source._runner = LosesReplies(source._runner)
        with pytest.raises(ConnectionFailedError):
            await source.settle(requested)
        claimed = await source.begin(await source.claim(4, 30))
        assert [each.payload for each in claimed] == ["a", "b", "c"]
        assert results(await source.settle({claimed[2]: Settlement(Done())})) == ["done"]
        observer.execute("delete from sluice.dead_letter")
        return [await source.settle(requested), await source.settle(first(requested, 3))]

    again, once_more = on_queue(work)

    assert results(again) == ["retry", "released", "retry", "dead"]
    assert results(once_more) == ["lost"] * 3, "after the reply, settlements are not recognised"


def test_settling_is_part_of_the_transaction_it_runs_in(worker_url, on_queue, observer, queue_name):
    WorkQueue(observer).send_batch(queue_name, ["kept", "rolled back", "lost"])

    async def work(source):
        kept, back, lost = await source.claim(3, 30)
        observer.execute(f"update pgmq.q_{queue_name} set read_ct = 9 where message = '\"lost\"'")
        async with await psycopg.AsyncConnection.connect(worker_url) as connection:
            runner = AsyncRunner(connection)
            outcomes = [await runner.run(source.acknowledgement(kept))]
            await connection.commit()
            outcomes.append(await runner.run(source.acknowledgement(lost)))
            outcomes.append(await runner.run(source.acknowledgement(back)))
            await connection.rollback()
        return outcomes

    assert on_queue(work) == ["done", "lost", "done"]
    assert where(observer, queue_name) == {
        "kept": "archived", "rolled back": "hidden", "lost": "hidden",
    }  # fmt: skip


def test_a_queue_that_is_not_there_is_refused_at_the_start(worker_url):
    with pytest.raises(QueueNotFoundError, match="create it"):
        with_source(worker_url, None, QueueRoute("no_such_queue"))


def test_a_topic_makes_its_queue_and_is_bound(worker_url, observer, queue_name):
    name = f"{queue_name}_paid"

    async def work(source):
        await source.prepare()
        WorkQueue(observer).send_topic("orders.eu.paid", "order")
        return [delivery.payload for delivery in await source.claim(5, 30)]

    assert with_source(worker_url, work, QueueRoute(name, topic="orders.*.paid")) == ["order"]


def test_a_binding_that_the_handler_does_not_declare_is_logged(
    worker_url, observer, queue_name, caplog
):
    async def work(_source):
        pass

    def logged():
        return [r.getMessage() for r in caplog.records if r.name.endswith("queue_source")]

    with_source(worker_url, work, QueueRoute(queue_name, topic="orders.paid"))
    assert logged() == []
    with_source(worker_url, work, QueueRoute(queue_name, topic="orders.sent"))

    (warning,) = logged()
    assert f"queue topics unbind 'orders.paid' {queue_name}" in warning


# Share groups -------------------------------------------------------------------------------------


@pytest.fixture
def on_group(worker_url, log_name):
    return lambda work, **fields: with_source(
        worker_url, work, GroupRoute(log_name, "mailers"), **fields
    )


def group_info(observer, log_name):
    fields = "leased, retrying, dead, max_attempts"
    return rows(observer, f"select {fields} from sluice.list_groups(%s, 'mailers')", log_name)[0]


def test_a_group_is_made_at_the_start_with_the_handler_s_policy(on_group, observer, log_name):
    async def work(source):
        await source.prepare()
        (ev_id,) = send_events(observer, log_name, "new")
        (delivery,) = await source.claim(5, 20)
        return source.name, ev_id, delivery

    name, ev_id, delivery = on_group(work, retry=RetryPolicy(max_attempts=7, backoff="linear"))

    assert name == delivery.source_name == f"group mailers of log {log_name}"
    assert (delivery.message_id, delivery.payload, delivery.attempt) == (ev_id, "new", 1)
    assert (delivery.headers, delivery.key) == ({"ev_type": "t"}, None)
    assert group_info(observer, log_name)[3] == 7
    assert (
        value(observer, "select backoff from sluice.list_groups(%s, 'mailers')", log_name)
        == "linear"
    )


def test_a_log_that_is_not_there_is_refused_at_the_start(worker_url):
    with pytest.raises(LogNotFoundError):
        with_source(worker_url, None, GroupRoute("no_such_log", "mailers"))


def test_each_outcome_of_events_is_settled_in_one_call_of_settle(on_group, observer, log_name):
    async def work(source):
        send_events(observer, log_name, *"abcde")
        deliveries = await source.begin(await source.claim(5, 30))
        requested = settlements(deliveries, Done(), Retry(60), Reject("bad"), Release(60), Done())
        some = results(await source.settle(first(requested, 4)))
        return some + results(
            await source.settle({each: requested[each] for each in deliveries[4:]})
        )

    assert on_group(work) == ["done", "retry", "dead", "released", "done"]
    assert group_info(observer, log_name)[:3] == (0, 2, 1)
    assert rows(
        observer,
        "select ev_data, reason, error_type, error, trace, worker from sluice.dead_letter where queue_name = %s",
        log_name,
    ) == [("c", "bad", "ValueError", "no such customer", "the trace", "tester")]


def test_event_outcomes_with_a_lost_reply_are_recognised_as_done(on_group, observer, log_name):
    async def work(source):
        send_events(observer, log_name, *"abc")
        deliveries = await source.begin(await source.claim(3, 30))
        requested = settlements(deliveries, Done(), Retry(60), Reject("bad"))
        source._runner = LosesReplies(source._runner)
        with pytest.raises(ConnectionFailedError):
            await source.settle(requested)
        return results(await source.settle(requested))

    assert on_group(work) == ["done", "retry", "dead"]
    assert group_info(observer, log_name)[:3] == (0, 1, 1)


def test_expired_claim_is_lost_and_other_messages_of_the_call_are_settled(
    on_group, observer, log_name
):
    async def work(source):
        send_events(observer, log_name, "lapses")
        lapsing = await source.claim(1, 0.05)
        await asyncio.sleep(0.06)
        assert [d.payload for d in await source.claim(1, 30)] == ["lapses"]
        send_events(observer, log_name, "kept")
        kept = await source.claim(1, 30)
        both = [*lapsing, *kept]
        assert await source.begin(both) == kept
        assert await source.extend(both, 40) == lapsing
        with pytest.raises(LeaseLostError):
            await source._runner.run(source.acknowledgement(lapsing[0]))
        return results(await source.settle({each: Settlement(Done()) for each in both}))

    assert on_group(work) == ["lost", "done"]


def test_a_lost_event_stays_claimed_when_the_rest_of_its_claim_is_acknowledged(
    on_group, observer, log_name
):
    async def work(source):
        send_events(observer, log_name, *"abc")
        lost, *rest = await source.begin(await source.claim(3, 30))
        source.forget(lost)
        await source.settle({delivery: Settlement(Done()) for delivery in rest})
        assert source._claims == {}

    on_group(work)
    assert group_info(observer, log_name)[:1] == (1,)


async def test_worker_keeps_nothing_of_events_acknowledged_in_the_handler_s_transaction(
    worker_url, observer, log_name
):
    app = App(worker_url, name="tests")
    handled = []

    @app.handler(log=log_name, group="mailers")
    async def handle(payload: str, context: Context):
        async with context.transaction():
            handled.append(payload)

    observer.execute("select sluice.create_group(%s, 'mailers')", [log_name])
    send_events(observer, log_name, *"abcdef")
    worker = Worker(app)
    await worker.run_until_empty(idle_s=0.2)

    assert sorted(handled) == list("abcdef")
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is _Claim], worker


def test_starts_of_events_are_counted_once_for_each_claim(on_group, observer, log_name):
    """A worker that dies after the start of a message uses an attempt."""

    async def work(source):
        send_events(observer, log_name, "kills")
        attempts = []
        for _ in range(3):
            for delivery in await source.begin(await source.claim(1, 0.05)):
                attempts.append(delivery.attempt)
            await asyncio.sleep(0.06)
        return attempts

    assert on_group(work, retry=RetryPolicy(max_attempts=2), lease_s=0.05) == [1, 2]
    assert group_info(observer, log_name)[:3] == (0, 0, 1)


def test_a_handler_gives_up_after_its_own_number_of_attempts(on_group, observer, log_name):
    observer.execute(
        "select sluice.create_group(%s, 'mailers', '{\"max_attempts\": 9}')", [log_name]
    )

    async def work(source):
        send_events(observer, log_name, "fails")
        seen = []
        while deliveries := await source.begin(await source.claim(1, 30)):
            seen += results(await source.settle(settlements(deliveries, Retry())))
        return seen

    assert on_group(work, retry=RetryPolicy(max_attempts=2, backoff_base_s=0)) == ["retry", "dead"]


def test_events_behind_a_retried_event_are_released_with_it(on_group, observer, log_name):
    observer.execute(
        "select sluice.create_group(%s, 'mailers', '{\"key\": \"$.customer\"}')", [log_name]
    )

    async def work(source):
        send_events(observer, log_name, *(f'{{"customer": "{c}"}}' for c in ("ann", "ann", "bob")))
        deliveries = await source.claim(3, 30)
        keys = [delivery.key for delivery in deliveries]
        first, behind, other = await source.begin(deliveries)
        await source.settle(settlements([first], Retry(60)))
        return keys, await source.begin([behind, other]) == [other]

    assert on_group(work) == (["ann", "ann", "bob"], True)
    assert group_info(observer, log_name)[:2] == (1, 2), (
        "bob's event is claimed, both of ann's wait"
    )


def test_handlers_of_a_group_share_a_source_and_what_none_is_for_is_passed_over(
    worker_url, observer, log_name
):
    paid = spec(GroupRoute(log_name, "mailers", ("order.paid",)), "paid")
    sent = spec(GroupRoute(log_name, "mailers", ("order.sent", "order.lost")), "sent")
    queue = spec(QueueRoute("elsewhere"), "queue")

    async def main():
        async with pool_of(worker_url) as pool:
            feeds = make_feeds([paid, queue, sent], pool, None, "tester")
            (feed,) = [feed for feed in feeds if isinstance(feed.source, GroupSource)]
            await feed.source.prepare()
            send_events(observer, log_name, "p", ev_type="order.paid")
            send_events(observer, log_name, *"xyz", ev_type="other")
            send_events(observer, log_name, "s", ev_type="order.sent")
            handled = []
            while deliveries := await feed.source.begin(await feed.source.claim(2, 30)):
                handled += [(feed.spec_of(d).name, d.payload) for d in deliveries]
                await feed.source.settle({each: Settlement(Done()) for each in deliveries})
            await feed.source.close()
            return len(feeds), feed.specs, handled

    count, specs, handled = asyncio.run(main())

    assert (count, specs) == (2, (paid, sent))
    assert handled == [("paid", "p"), ("sent", "s")]
    accepted = "select accepted from sluice.list_types(%s, 'mailers') where ev_type = 'other'"
    assert value(observer, accepted, log_name) == 3
    assert group_info(observer, log_name)[:3] == (0, 0, 0)


def test_two_handlers_of_a_group_for_the_same_events_are_refused(log_name):
    pool = SimpleNamespace(max_size=1)
    route = GroupRoute(log_name, "mailers", ("t",))
    for other in (route, GroupRoute(log_name, "mailers", ("u", "t"))):
        with pytest.raises(ConfigurationError, match="both match events of type 't'"):
            make_feeds([spec(route, "one"), spec(other, "two")], pool, None, "tester")
    rest = GroupRoute(log_name, "mailers")
    with pytest.raises(ConfigurationError, match="both match all events"):
        make_feeds([spec(rest, "one"), spec(rest, "two")], pool, None, "tester")


def test_a_group_that_allows_fewer_attempts_than_its_handler_is_logged_with_both_numbers(
    worker_url, observer, log_name, caplog
):
    async def nothing(_source):
        pass

    route = GroupRoute(log_name, "limited")
    for attempts in (3, 2, 5):
        with_source(worker_url, nothing, route, retry=RetryPolicy(max_attempts=attempts))

    (line,) = [each for each in caplog.messages if "attempts" in each]
    assert "group_max_attempts=3" in line
    assert "max_attempts=5" in line
    assert f"pgsluice group set {log_name} limited max_attempts=5" in line


async def test_a_log_that_is_created_again_is_handled_by_its_group_and_its_consumer(
    worker_url, observer, log_name
):
    """The worker registers both again, as at its start."""
    app, handled = App(worker_url, name="tests"), []

    @app.handler(log=log_name, group="g")
    async def share(payload: str):
        handled.append(("g", payload))

    @app.handler(log=log_name, consumer="c")
    async def consume(payload: str):
        handled.append(("c", payload))

    def are_registered():
        return value(
            observer,
            "select count(*) from sluice.list_groups(%s)",
            log_name,
        ) and value(
            observer,
            "select count(*) from pgq.get_consumer_info(%s, 'c')",
            log_name,
        )

    worker = Worker(app)
    task = asyncio.create_task(worker.run())
    for number in "12":
        await until(are_registered, "the group and the consumer", 20)
        send_events(observer, log_name, number)
        observer.execute("select pgq.force_tick(%s), pgq.ticker(%s)", [log_name, log_name])
        await until(lambda: len(handled) == 2, "the event to be handled by both", 10)
        assert sorted(handled) == [("c", number), ("g", number)]
        handled.clear()
        for again in ("select pgq.drop_queue(%s, true)", "select pgq.create_queue(%s)"):
            # In a thread: the worker's transactions end meanwhile.
            await asyncio.to_thread(observer.execute, again, [log_name])
    worker.stop()
    await task
