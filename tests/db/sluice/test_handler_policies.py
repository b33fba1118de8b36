from support import rows

POLICY = (
    '{"source": "queue Orders", "handler": "ship", "max_attempts": 20, "backoff": "constant", '
    '"backoff_base": 600, "backoff_max": 900, "backoff_factor": 2, "backoff_jitter": false}'
)


def report(connection, worker, policies="[]"):
    connection.execute(
        "select sluice.report_worker(%s, 'shop', 'h', 1, '1', array['queue Orders'], null, '1 s', "
        "'[]', '{}', null, %s::jsonb)",
        (worker, policies),
    )


def found(connection, source="queue orders"):
    return rows(
        connection,
        "select handler, workers, max_attempts, backoff_base::text, backoff_max::text "
        "from sluice.handler_policies(%s)",
        source,
    )


def test_policies_of_handlers_of_live_workers_are_returned_by_source(connection):
    report(connection, "a", f"[{POLICY}]")
    report(connection, "b", f"[{POLICY}]")
    report(connection, "c")

    assert found(connection) == [("ship", 2, 20, "00:10:00", "00:15:00")]
    assert found(connection, "queue other") == []
    assert found(connection, "log orders group g") == []

    connection.execute("select sluice.end_worker('a')")
    assert found(connection) == [("ship", 1, 20, "00:10:00", "00:15:00")]
    connection.execute(
        "update sluice.process_report set reported_at = now() - interval '2 minutes'"
    )
    assert found(connection) == []


def test_explanation_names_the_attempts_that_the_handler_has(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send('orders', '1')")
    failures = "jsonb_build_array(jsonb_build_object('msg_id', 1, 'read_ct', read_ct))"
    connection.execute(
        f"select sluice.fail('orders', {failures}, 'a', '{{\"max_attempts\": 20, \"backoff_base\": 600}}') "
        "from pgmq.read('orders', 60, 1)"
    )

    def attempts():
        return rows(
            connection,
            "select (e.detail ->> 'max_attempts')::integer from sluice.explain_message('orders', 1) as e "
            "where e.cause = 'back-off'",
        )

    assert attempts() == [(5,)]
    report(connection, "a", f"[{POLICY}]")
    assert attempts() == [(20,)]
