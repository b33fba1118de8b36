import psycopg
import pytest

from support import value

DENIED = psycopg.errors.InsufficientPrivilege


def commit(session, version):
    return value(session, "select sluice.sink_commit('importer', %s)", version)


def test_an_administrator_hands_a_sink_over_and_forgets_it(acting):
    hand_over = "select sluice.set_sink_owner('importer', %s)"
    with (
        acting("importer") as importer,
        acting("stranger") as stranger,
        acting("administrator") as administrator,
    ):
        assert value(administrator, hand_over, acting.names["stranger"]) is False
        commit(importer, 1)
        assert value(administrator, hand_over, acting.names["stranger"]) is True
        assert commit(stranger, 2) is True
        with pytest.raises(DENIED):
            commit(importer, 3)
        assert value(administrator, "select sluice.forget_sink('importer')") is True
        assert commit(importer, 0) is True


def test_an_owner_cannot_give_its_sink_to_a_role_that_it_is_no_member_of(acting):
    with acting("importer") as importer:
        commit(importer, 2**63 - 1)
        with pytest.raises(DENIED, match="may not give sink 'importer' to role stranger_"):
            importer.execute(
                "select sluice.set_sink_owner('importer', %s)", (acting.names["stranger"],)
            )
        with pytest.raises(
            psycopg.errors.UndefinedObject, match="role 'nobody_here' does not exist"
        ):
            importer.execute("select sluice.set_sink_owner('importer', 'nobody_here')")
