import pytest

from support import rows, value


@pytest.fixture
def tables(connection, role):
    connection.execute('create table public."From" (id int)')
    connection.execute("create table public.goal (id int)")
    yield
    connection.execute(f"drop owned by {role}")


def test_it_copies_every_grant_and_the_right_to_grant(connection, tables, role):
    connection.execute(f'grant insert, select on public."From" to {role}')
    connection.execute(f'grant delete on public."From" to {role} with grant option')
    connection.execute('grant select on public."From" to public')

    assert (
        value(connection, "select pgq._grant_perms_from('public', 'From', 'public', 'goal')") == 1
    )

    acl = """select a.grantee::regrole::text, a.privilege_type, a.is_grantable
             from pg_class as c, aclexplode(c.relacl) as a
             where c.oid = %s::regclass and a.grantee <> c.relowner order by 1, 2"""
    assert rows(connection, acl, "public.goal") == rows(connection, acl, 'public."From"')
    assert len(rows(connection, acl, "public.goal")) == 4


def test_a_table_without_grants_gives_none(connection, tables):
    connection.execute("select pgq._grant_perms_from('public', 'From', 'public', 'goal')")

    assert value(connection, "select relacl from pg_class where relname = 'goal'") is None
