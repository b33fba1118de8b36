from support import value


def test_json_is_text_in_the_order_asked_for_and_a_mark_is_hidden(connection):
    query = "select sluice._message_columns_sql(array['vt', 'headers', 'A'], hides_vt => %s)"

    assert value(connection, query, False) == 'm.vt, m.headers::text as headers, m."A"'
    assert value(connection, query, True) == (
        'null::timestamptz as vt, m.headers::text as headers, m."A"'
    )
