from support import rows


def test_log_as_it_was_made_has_no_problem(connection):
    connection.execute("select pgq.create_queue('changes'), pgq.register_consumer('changes', 'c')")
    connection.execute("select sluice.create_group('changes', 'mail')")

    assert rows(connection, "select * from sluice.list_log_problems()") == []


def test_problem_of_each_log_has_a_statement_that_corrects_it(connection):
    for name in ("one", "other"):
        connection.execute("select pgq.create_queue(%s)", (name,))
    connection.execute("delete from pgq.tick")
    problems = "select log_name, hint from sluice.list_log_problems()"
    found = rows(connection, problems)
    assert [name for name, _ in found] == ["one", "other"]

    for _, hint in found:
        connection.execute(hint.encode())

    assert rows(connection, problems) == []


def test_log_with_a_missing_table_does_not_hide_the_others(connection):
    for name in ("broken", "other"):
        connection.execute("select pgq.create_queue(%s)", (name,))
    connection.execute("delete from pgq.tick")
    connection.execute("drop table pgq.tick_1 cascade")

    found = rows(connection, "select log_name from sluice.list_log_problems()")

    assert found == [("other",)]
