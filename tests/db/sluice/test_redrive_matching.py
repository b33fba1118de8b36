import psycopg
import pytest

from support import rows, value


@pytest.fixture
def letters(orders):
    """The dead letters 2 to 6 of `orders`, in addition to the first."""
    orders.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, reason) "
        "select 'orders', 100 + n, 3, now(), jsonb_build_object('n', n), 'r' from generate_series(2, 6) as n"
    )
    return orders


def redriven(connection, arguments):
    query = f"select dead_letter_id from sluice.redrive_matching({arguments})"
    return [row[0] for row in rows(connection, query)]


def test_steps_move_what_matches_in_order_until_nothing_is_left(letters):
    assert redriven(letters, "'orders', 'again', qty => 4") == [1, 2, 3, 4]
    assert redriven(letters, "'orders', 'again', qty => 4") == [5, 6]
    assert redriven(letters, "'orders', 'again', qty => 4") == []
    assert value(letters, "select array_agg(message -> 'n' order by msg_id) from pgmq.q_again") == [5, 2, 3, 4, 5, 6]  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("after_dead_letter_id => 4", [5, 6]),
        ("conditional => '{\"n\": 5}'", [1, 5]),
        ("conditional_headers => '{\"h\": 2}'", [1]),
        ("since => now() + interval '1 h'", []),
        ("until => now() + interval '1 h'", [1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_filter_keeps_the_others_dead(letters, condition, wanted):
    assert redriven(letters, f"'orders', {condition}") == wanted
    assert value(letters, "select count(*) from sluice.dead_letter") == 6 - len(wanted)


def test_an_unknown_target_is_named_and_moves_nothing(letters):
    with pytest.raises(psycopg.Error) as caught:
        redriven(letters, "'orders', 'missing'")

    assert caught.value.sqlstate == "QU005"
    assert value(letters, "select count(*) from sluice.dead_letter") == 6
