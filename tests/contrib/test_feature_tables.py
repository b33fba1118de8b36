"""The feature tables of the guide: each row has a test that proves it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from support.processes import GUIDES

CELERY = {
    "`delay`, `apply_async`, results by `rpc://`": "kombu: test_the_first_steps_with_celery_run",
    "results by `db+postgresql+psycopg://`": "celery: test_a_database_backend_keeps_results",
    "`countdown`, `eta`": "kombu: test_the_queue_keeps_a_task_until_its_time",
    "`expires`": "celery: test_a_task_that_has_expired_is_not_run",
    "`retry`, `autoretry_for`": "celery: test_a_task_that_fails_is_retried_after_its_delay",
    "`group`, `chain`, `chord`": "celery: test_groups_chains_and_chords_run",
    "`chord` with `rpc://`": "kombu: test_a_chord_with_results_by_rpc_is_refused",
    "`task_acks_late`": "kombu: test_a_worker_that_is_killed_loses_no_task",
    "without `task_acks_late`": (
        "celery: test_without_late_acknowledgement_a_killed_worker_loses_what_it_runs"
    ),
    "`task_reject_on_worker_lost`": "celery: test_a_task_whose_process_crashes_is_redelivered",
    "`Reject(requeue=False)`": "celery: test_a_rejected_task_is_dead_lettered",
    "`worker_prefetch_multiplier`": (
        "kombu: test_a_consumer_claims_no_more_than_its_prefetch_count"
    ),
    "`priority`, `x-max-priority`, and other queue arguments": (
        "kombu: test_option_without_effect_is_logged_once"
    ),
    "direct, topic and fanout exchanges": (
        "kombu: test_exchanges_of_one_process_deliver_to_queues_that_another_has_bound"
    ),
    "headers exchanges": "kombu: test_an_exchange_of_another_type_is_refused",
    "queue names over 47 bytes": "kombu: test_a_queue_name_that_is_too_long_is_shortened",
    "large messages": "kombu: test_a_message_of_many_megabytes_comes_as_it_was_sent",
    "`control.ping`, `celery status`": (
        "celery: test_ping_reaches_the_worker test_celery_status_lists_the_worker"
    ),
    "`inspect`": "celery: test_inspect_shows_what_a_worker_does",
    "`revoke`": "celery: test_a_task_that_is_revoked_before_it_starts_is_not_run",
    "`revoke(terminate=True)`": "celery: test_a_running_task_is_terminated_by_revoke",
    "`rate_limit`, `pool_grow`, `add_consumer`, `cancel_consumer`": (
        "celery: test_a_worker_is_changed_while_it_runs"
    ),
    "`control.shutdown`": "celery: test_a_worker_is_shut_down_by_remote_control",
    "events (`-E`)": "celery: test_events_reach_a_receiver",
    "mingle, gossip": "celery: test_workers_neither_mingle_nor_gossip",
    "`control.purge`": "kombu: test_a_purge_deletes_delayed_and_claimed_messages_too",
    "`celery beat`": "celery: test_beat_sends_what_is_due",
    "several workers": "celery: test_two_workers_share_tasks_and_both_answer",
    "pools `solo` and `threads`": "celery: test_other_pools_run_tasks",
    "warm shutdown (`SIGTERM`)": (
        "celery: test_a_warm_shutdown_lets_tasks_finish_and_gives_back_the_others"
    ),
    "cold shutdown (`SIGQUIT`)": "celery: test_a_cold_shutdown_leaves_tasks_to_other_workers",
    "a lost connection": (
        "celery: test_a_worker_that_loses_its_connection_reconnects_and_runs_the_task_again"
    ),
    "a worker that was killed": (
        "kombu: test_a_temporary_queue_that_nothing_reads_is_dropped_by_the_next_message"
    ),
    "a worker of the same name": (
        "kombu: test_a_process_of_the_same_name_gets_nothing_that_was_broadcast_before"
    ),
    "messages that are not tasks of Celery": "kombu: test_message_not_sent_by_kombu_is_dead_lettered",
}
_ACK_TYPES = "taskiq_surface: test_a_task_is_acknowledged_when_its_ack_type_says"
TASKIQ = {
    "`kiq`, arguments, labels, results": (
        "taskiq_surface: test_labels_arguments_and_results_arrive"
    ),
    "serializers": "taskiq: test_bytes_of_any_serializer_come_back_as_they_were",
    "the label `delay`": (
        "taskiq: test_the_queue_keeps_a_delayed_task test_invalid_delay_is_refused"
    ),
    "ack type `when_received`": _ACK_TYPES,
    "ack type `when_executed`": _ACK_TYPES,
    "ack type `when_saved`, the default": _ACK_TYPES,
    "ack type `manual`": (
        "taskiq_surface: test_a_task_acknowledges_itself_with_the_ack_type_manual"
    ),
    "`SmartRetryMiddleware`": (
        "taskiq_surface: test_a_retry_middleware_sends_a_failed_task_again"
        " test_the_queue_keeps_the_delay_of_a_retry"
    ),
    "a task that fails or exceeds its `timeout`, without that": (
        "taskiq_surface: test_a_task_that_fails_or_times_out_without_retries_is_acknowledged"
    ),
    "`context.requeue()`": "taskiq_surface: test_a_requeued_task_runs_again",
    "a task that no worker knows": (
        "taskiq_surface: test_a_task_that_no_worker_knows_is_acknowledged_by_taskiq"
    ),
    "schedules (`TaskiqScheduler`, `LabelScheduleSource`)": (
        "taskiq_surface: test_a_scheduler_sends_what_is_due"
    ),
    "several workers": "taskiq_surface: test_workers_share_tasks",
    "`SIGTERM`": (
        "taskiq_surface: test_a_worker_that_is_stopped_gives_back_what_it_has_not_done"
        " test_messages_dropped_by_taskiq_are_released_at_shutdown"
    ),
    "`SIGKILL`": "taskiq: test_a_worker_that_is_killed_loses_no_task",
    "a lost connection": ("taskiq_surface: test_broker_logs_a_lost_connection_and_reconnects"),
    "messages that are not tasks of Taskiq": "taskiq: test_message_not_sent_by_taskiq_is_dead_lettered",
}


@pytest.mark.parametrize(
    ("heading", "features"), [("Celery", CELERY), ("Taskiq", TASKIQ)], ids=["celery", "taskiq"]
)
def test_each_row_of_a_table_of_features_has_its_test(heading, features):
    guide = (GUIDES / "taskiq-and-celery.md").read_text(encoding="utf-8")
    section = guide.partition(f"### Supported features of {heading}\n")[2]
    table = section.partition("|---|---|\n")[2].partition("\n\n")[0]
    shown = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()]

    assert shown == list(features)
    for feature, named in features.items():
        module, _, tests = named.partition(": ")
        source = Path(__file__).with_name(f"test_{module}.py").read_text(encoding="utf-8")
        there = {
            node.name
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert set(tests.split()) <= there, feature
