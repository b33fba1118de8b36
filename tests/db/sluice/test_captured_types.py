"""Captured values: a copy made from the events equals a table with a column of every core type."""

import json

import psycopg
import pytest

from support import rows, value
from support.capture import apply, copy_of, logged, snapshot

VALUES = {
    "bool": ["true", "false"],
    "smallint": ["-32768", "32767"],
    "integer": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "9007199254740993"],
    "numeric": ["NaN", "Infinity", "-Infinity", "1.10", "0.000000000000000000000000000001",
                "-123456789012345678901234567890.12345678901234567890", "1e1000"],
    "numeric(6,-2)": ["123400"],
    "real": ["NaN", "Infinity", "-Infinity", "3.4028235e38", "1.17549435e-38", "1e-45", "-0", "0.1"],
    "double precision": ["NaN", "Infinity", "-Infinity", "1.7976931348623157e308", "2.2250738585072014e-308",
                         "5e-324", "-0", "0.1", "0.30000000000000004"],
    "money": ["$1,234.56", "-92233720368547758.08"],
    "text": ["", " ", "null", '"', "\\", "a\nb\tc\r\b\f\x01", "é€𝄞", "{}", "'"],
    "varchar(5)": ["", "abcde"],
    "char(5)": ["ab", ""],
    '"char"': ["a", "\\377", ""],
    "name": ["Some Name"],
    "bytea": ["\\x", "\\x00ff5c27", "\\xdeadbeef"],
    "date": ["2026-11-21", "infinity", "-infinity", "0044-03-15 BC", "5874897-12-31"],
    "time": ["00:00:00", "24:00:00", "12:34:56.789012"],
    "timetz": ["12:34:56.789012+05:30", "24:00:00-15:59"],
    "timestamp": ["2026-11-21 12:34:56.789012", "infinity", "-infinity", "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999"],
    "timestamptz": ["2026-11-21 12:34:56.789012+05:30", "infinity", "-infinity", "4714-11-25 00:00:00+00 BC"],
    "interval": ["1 year -2 months 3 days -04:05:06.789012", "00:00:00", "-178000000 years", "1 day -00:00:00.000001"],
    "uuid": ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"],
    "json": ['{"a": 1, "a": 2}', "[1,  2]", '"x"', "1.0", '{"b":\n{"c":[]}}'],
    "jsonb": ['{"a": 1.10, "b": [null, "x"]}', '"\\u00e9"', "1e400"],
    "jsonpath": ['$."a"[*] ? (@ > 1)'],
    "bit(4)": ["1010"],
    "varbit": ["", "10101"],
    "inet": ["10.1.2.3", "10.1.2.3/8", "::1/128", "fe80::1/10"],
    "cidr": ["10.0.0.0/8", "2001:db8::/32"],
    "macaddr": ["08:00:2b:01:02:03"],
    "macaddr8": ["08:00:2b:ff:fe:01:02:03"],
    "point": ["(0.1,-2)", "(NaN,Infinity)"],
    "line": ["{1,2,3}"],
    "lseg": ["[(1,2),(3,4)]"],
    "box": ["(3,4),(1,2)"],
    "path": ["[(1,2),(3,4)]", "((1,2),(3,4))"],
    "polygon": ["((1,2),(3,4),(5,6))"],
    "circle": ["<(1,2),3>"],
    "tsvector": ["'a':1A 'fat cat':2,4B"],
    "tsquery": ["'fat' & ( 'rat' | !'cat':*A )"],
    "int4range": ["[1,5)", "empty", "(,5)", "(,)"],
    "int8range": ["[1,9223372036854775807)"],
    "numrange": ["[1.10,2.20]", "(-Infinity,NaN)"],
    "daterange": ["[2026-01-02,2026-11-21)", "[2026-01-01,infinity)"],
    "tsrange": ["[2026-01-02 03:04:05.000006,2026-11-21)"],
    "tstzrange": ["[2026-01-02 03:04:05.000006+03,infinity]"],
    "int4multirange": ["{[1,3),[5,7)}", "{}"],
    "int8multirange": ["{[1,3)}"],
    "nummultirange": ["{[1.10,2.20]}"],
    "datemultirange": ["{[2026-01-02,2026-02-03)}"],
    "tsmultirange": ["{[2026-01-02,2026-02-03)}"],
    "tstzmultirange": ["{[2026-01-02 00:00+03,2026-02-03 00:00+03)}"],
    "pg_lsn": ["16/B374D848", "FFFFFFFF/FFFFFFFF"],
    "xid8": ["18446744073709551615"],
    "xid": ["4294967295"],
    "cid": ["4294967295"],
    "tid": ["(4294967295,65535)"],
    "oid": ["4294967295"],
    "oidvector": ["1 2 3"],
    "int2vector": ["1 2 3"],
    "pg_snapshot": ["10:20:10,14,15"],
    "txid_snapshot": ["10:20:10,14,15"],
    "regclass": ["pg_catalog.pg_class"],
    "regtype": ["timestamp with time zone", "integer[]"],
    "regproc": ["pg_catalog.now"],
    "regprocedure": ["pg_catalog.abs(integer)"],
    "regoper": ["pg_catalog.||/"],
    "regoperator": ["pg_catalog.+(integer,integer)"],
    "regrole": ["postgres"],
    "regnamespace": ["pg_catalog"],
    "regcollation": ['"C"'],
    "regconfig": ["english"],
    "regdictionary": ["simple"],
    "aclitem": ["postgres=arwd/postgres"],
    "refcursor": ["a cursor"],
    # Types derived from others
    "integer[]": ["{}", "{1,NULL,-3}", "{{1,2},{3,4}}"],
    "text[]": ['{"a b",NULL,"NULL","{}","\\"",""}'],
    "timestamptz[]": ['{"2026-01-02 03:04:05.000006+03",infinity}'],
    "bytea[]": ['{"\\\\x00ff"}'],
    "jsonb[]": ['{"{\\"a\\": 1}",NULL}'],
    "mood": ["sad", "it's ok"],
    "mood[]": ['{sad,NULL,"it\'s ok"}'],
    "pair": ['(1,"a ""b"", c")', "(,)", '(,"")'],
    "pair[]": ['{"(1,a)",NULL}'],
    "positive": ["5"],
    "positive[]": ["{5,6}"],
    "happy": ["it's ok"],
    "nested": ['("(1,x)","{1,2}",sad)'],
    "moodrange": ["[sad,happy]"],
    "moodmultirange": ["{[sad,happy]}"],
}  # fmt: skip
LATER = {"interval": (17, ["infinity", "-infinity"])}
TYPES = """
create type mood as enum ('sad', 'it''s ok', 'happy');
create type pair as (a integer, b text);
create domain positive as integer check (value > 0);
create domain happy as mood check (value <> 'sad');
create type nested as (p pair, list integer[], m mood);
create type moodrange as range (subtype = mood, multirange_type_name = moodmultirange);
"""
# Types that user tables cannot have, or without an input function.
INTERNAL = {
    "gtsvector", "pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary", "pg_ddl_command", "xml",
}  # fmt: skip


@pytest.fixture
def wide(connection):
    """A captured table with a column for each type."""
    connection.execute(TYPES)
    version = connection.info.server_version // 10000
    values = {
        kind: texts + (LATER[kind][1] if kind in LATER and version >= LATER[kind][0] else [])
        for kind, texts in VALUES.items()
    }
    try:
        connection.execute("select '<a/>'::xml")
        values["xml"] = ["<a b='c'>é &amp; \n</a>", "text <b/> more", ""]
    except psycopg.errors.FeatureNotSupported:
        pass  # the server was built without libxml
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(values))
    connection.execute(f"create table wide (id integer primary key, {columns})")
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('wide', 'changes')")
    return values


def fill(connection, values):
    connection.execute("set lc_monetary = 'C'")
    for n in range(max(map(len, values.values())) + 1):
        given = [texts[n] if n < len(texts) else None for texts in values.values()]
        casts = ", ".join(f"%s::text::{kind}" for kind in values)
        connection.execute(f"insert into wide values (%s, {casts})", [n, *given])


def differences(connection, values):
    """Return the column types, original values and copied values that differ."""
    return {
        (kind, was, became)
        for i, kind in enumerate(values)
        for was, became in rows(
            connection,
            f"""select t.c{i}::text, c.c{i}::text from wide as t full join copy as c using (id)
            where t.c{i}::text is distinct from c.c{i}::text""",
        )
    }


def test_no_type_is_forgotten(connection, wide):
    forgotten = {
        name
        for (name,) in rows(
            connection,
            """select t.typname from pg_type as t
            where t.typtype in ('b', 'r', 'm') and t.typcategory <> 'A' and t.typnamespace = 'pg_catalog'::regnamespace
              and not exists (
                  select from pg_attribute as a where a.attrelid = 'wide'::regclass and a.atttypid = t.oid
              )""",
        )
    }

    assert forgotten <= INTERNAL


def test_a_copy_made_of_changes_is_the_table(connection, wide):
    fill(connection, wide)
    connection.execute("update wide set c0 = not c0")

    copy_of(connection, "wide")
    apply(connection, logged(connection))

    assert differences(connection, wide) == set()


def test_a_copy_made_of_a_snapshot_is_the_table(connection, wide):
    connection.execute("alter table wide disable trigger user")
    fill(connection, wide)
    connection.execute("alter table wide enable trigger user")

    snapshot(connection, "wide")
    copy_of(connection, "wide")
    apply(connection, logged(connection))

    assert differences(connection, wide) == set()


def test_the_settings_of_the_writing_session_do_not_matter(connection, wide):
    connection.execute(
        """set timezone = 'Asia/Tokyo'; set intervalstyle = 'sql_standard'; set bytea_output = 'escape';
        set datestyle = 'German'; set extra_float_digits = -15; set quote_all_identifiers = on"""
    )
    fill(connection, wide)
    snapshot(connection, "wide")
    connection.execute(
        "reset timezone; reset intervalstyle; reset bytea_output; reset datestyle; reset extra_float_digits;"
        "reset quote_all_identifiers"
    )

    made = {
        op: [json.loads(data)["after"] for kind, data in logged(connection) if kind == op]
        for op in "cr"
    }
    copy_of(connection, "wide")
    apply(connection, logged(connection))

    assert made["c"] == made["r"]
    assert differences(connection, wide) == set()


def test_values_outside_json(connection):
    connection.execute("create table odd (id int primary key, n jsonb, j json, a integer[])")
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('odd', 'changes')")
    connection.execute("insert into odd values (1, 'null', ' [1,  2] ', '[0:1]={7,8}')")

    copy_of(connection, "odd")
    apply(connection, logged(connection))

    # JSON null becomes SQL null, spaces around a json value are removed, and arrays start at 1.
    assert rows(connection, "select n, j::text, a::text from copy") == [(None, "[1,  2]", "{7,8}")]


def test_values_of_own_types_are_strings_and_those_of_domains_are_what_they_are_based_on(
    connection,
):
    connection.execute(TYPES)
    connection.execute("create table odd (m mood, p pair, d positive, l positive[], n integer[])")
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('odd', 'changes')")
    connection.execute("insert into odd values ('sad', (1, 'a'), 5, '{6}', '{7}')")

    ((_, data),) = logged(connection)
    assert json.loads(data)["after"] == {"m": "sad", "p": "(1,a)", "d": 5, "l": [6], "n": [7]}
    assert value(connection, "select count(*) from odd") == 1
