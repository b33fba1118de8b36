from support import value


def test_dead_letters_that_a_filter_matches_are_counted(orders):
    assert value(orders, "select sluice.count_dead_letters('ORDERS')") == 1
    assert value(orders, "select sluice.count_dead_letters('orders', '{\"odd\": true}')") == 1
    assert value(orders, "select sluice.count_dead_letters('orders', '{\"odd\": false}')") == 0
    assert (
        value(orders, "select sluice.count_dead_letters('orders', since => now() + interval '1 h')")
        == 0
    )
    assert value(orders, "select sluice.count_dead_letters('again')") == 0
