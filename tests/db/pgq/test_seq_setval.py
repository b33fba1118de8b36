from support import value


def test_it_moves_forward_and_never_back(connection):
    connection.execute("create sequence public.ids")

    assert value(connection, "select pgq.seq_setval('public.ids', 10)") == 10
    assert value(connection, "select nextval('public.ids')") == 11
    assert value(connection, "select pgq.seq_setval('ids', 5)") == 11
    assert value(connection, "select nextval('public.ids')") == 12


def test_null_changes_nothing(connection):
    connection.execute("create sequence public.ids")

    assert value(connection, "select pgq.seq_setval('ids', null)") is None
    assert value(connection, "select pgq.seq_getval('ids')") == 1
