from support import rows, value


def test_no_delay_is_from_the_start_of_the_transaction_and_a_delay_from_the_call(connection):
    with connection.transaction():
        connection.execute("select pg_sleep(0.02)")
        assert rows(
            connection,
            "select pgmq._visible_from(0) = now(), pgmq._visible_from(-5) = now() - interval '5 s', pgmq._visible_from(null)",
        ) == [(True, True, None)]
        assert (
            value(connection, "select pgmq._visible_from(60) > now() + interval '60.01 s'") is True
        )
