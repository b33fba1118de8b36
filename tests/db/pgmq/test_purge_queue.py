from support import rows, value


def test_purge_counts_and_deletes_all_and_leaves_the_archive(connection, queue):
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")
    connection.execute("select pgmq.read('orders', 30, 1)")
    connection.execute("select pgmq.archive('orders', 1)")

    assert value(connection, "select pgmq.purge_queue('orders')") == 2

    assert value(connection, "select count(*) from pgmq.q_orders") == 0
    assert value(connection, "select count(*) from pgmq.a_orders") == 1
    assert value(connection, "select pgmq.send('orders', '{}'::jsonb)") == 4


def test_nothing_vanishes_uncounted(database, connection, queue):
    # The count waits for the open sender, as TRUNCATE would delete its message uncounted.
    import threading

    from support import wait_for_lock

    with database.connect(autocommit=False) as sender, database.connect() as purger:
        sender.execute("select pgmq.send('orders', '{}'::jsonb)")
        purged = []
        thread = threading.Thread(
            target=lambda: purged.append(value(purger, "select pgmq.purge_queue('orders')"))
        )
        thread.start()
        wait_for_lock(connection, purger)
        sender.commit()
        thread.join(30)

    assert purged == [1]
    assert rows(connection, "select * from pgmq.q_orders") == []
