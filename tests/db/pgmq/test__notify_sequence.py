import pytest

from support import value


@pytest.mark.parametrize(
    ("name", "sequence"),
    [
        ("orders", 'pgmq."q_orders_NOTIFY"'),
        ("Orders", 'pgmq."q_orders_NOTIFY"'),
        ('quo"te', 'pgmq."q_quo""te_NOTIFY"'),
        ("x" * 54, f'pgmq."q_{"x" * 54}_NOTIFY"'),
        (None, None),
    ],
)
def test_the_sequence_is_named_after_the_table(connection, name, sequence):
    assert value(connection, "select pgmq._notify_sequence(%s)", name) == sequence


@pytest.mark.parametrize("name", ["x" * 55, "x" * 70, "キュー" * 20])
def test_a_name_without_room_still_gets_a_sequence_of_its_own_that_is_not_its_table(
    connection, name
):
    sequence = value(connection, "select pgmq._notify_sequence(%s)", name)

    assert len(sequence.encode()) <= len('pgmq.""') + 63
    assert sequence != value(connection, "select pgmq._notify_sequence(%s)", "y" + name[1:])
    assert sequence == value(
        connection, "select format('pgmq.%%I', trim('\"' from substr(%s, 6))::name)", sequence
    )
