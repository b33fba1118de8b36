import psycopg, pytest, time
from support import *
from support_log import tick
from support_share_groups import *

@pytest.fixture
def group(connection):
    make_log(connection); create_group(connection)

def test_poison_delay(connection, group):
    send(connection, "a")
    (e,) = claim(connection)
    acknowledge(connection, e.claim_id, "retry", delay="300000 years")
    print(claimed(connection))

def test_poison_backoff(connection, group):
    create_group(connection, "b", backoff_base="2 days", max_attempts=100, max_deliveries=1000, backoff_jitter=False)
    send(connection, "a")
    for n in range(40):
        (e,) = claim(connection, group="b")
        acknowledge(connection, e.claim_id, "retry", group="b")
        let_pass(connection, "1 hour")

def test_dead_log_gone(connection, group):
    make_log(connection, "graves")
    create_group(connection, "b", dead_letter_log="graves", max_deliveries=1)
    send(connection, "a")
    claim(connection, group="b")
    connection.execute("select pgq.drop_queue('graves')")
    let_pass(connection)
    print(claimed(connection, group="b"))

def test_null_id(connection, group):
    send(connection, "a")
    (e,) = claim(connection)
    print(acknowledge(connection, e.claim_id, "accept", [None]))
    print(acknowledge(connection, e.claim_id, "accept", [1, None]))
    assert 0

def test_null_then_whole(connection, group):
    send(connection, "a")
    (e,) = claim(connection)
    print(acknowledge(connection, e.claim_id, "reject", [1]))
    print(acknowledge(connection, e.claim_id, "accept"))
    assert 0

def test_min_id(connection, group):
    for n in (-2**63, -2**63+1, 2**63-1, 0, -1):
        connection.execute("select pgq.insert_event_raw('changes', %s, now(), null, null, 't', 'd', null, null, null, null)", (n,))
    print(take_all(connection))
    assert 0

def test_same_ids(connection, group):
    for n in (5,5,5,6,6):
        connection.execute("select pgq.insert_event_raw('changes', %s, now(), null, null, 't', 'd', null, null, null, null)", (n,))
    print(claimed(connection, 1), claimed(connection), claimed(connection, 10))
    assert 0

def test_open_scan(connection, group):
    send_many(connection, 30001)
    (e,) = claim(connection, 1, "10 hours")
    connection.execute("""do $$ declare c bigint; begin for n in 1..30000 loop
       select claim_id into c from sluice.claim('changes','workers'); perform sluice.acknowledge('changes','workers',c); end loop; end $$""")
    acknowledge(connection, e.claim_id)
    let_pass(connection, "2 seconds")
    t = time.monotonic()
    claimed(connection)
    print("claim after", time.monotonic()-t)
    let_pass(connection, "1 hour")
    for n in range(3):
        t = time.monotonic()
        claimed(connection)
        print("claim after lapse look", time.monotonic()-t)
    assert 0

def test_bulk(connection, group):
    connection.execute("select pgq.insert_event('changes', 't', n::text) from generate_series(1, 500000) as n")
    tick(connection)
    for n in range(3):
        t = time.monotonic()
        claimed(connection)
        print("claim of bulk", time.monotonic()-t)
    assert 0
def test_mass_lapse(connection, group):
    send_many(connection, 100000)
    for n in range(200):
        claim(connection, 500)
    let_pass(connection, "1 hour")
    for n in range(3):
        t = time.monotonic()
        claimed(connection)
        print("mass lapse of 100,000", time.monotonic()-t)
    assert 0
