"""Names of captured tables and of their tables in the lake."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgsluice.errors import ConfigurationError
from pgsluice.lake.names import ColumnName, TableName, file_name, folder_name, iceberg_name
from support.servers import Database

parts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=63
) | st.text('ab._~"%', min_size=1, max_size=5)
names = st.builds(TableName, parts, parts)


@given(names, parts)
def test_text_of_a_name_is_parsed_to_the_name(name: TableName, column: str):
    assert TableName.parse(str(name)) == name
    assert ColumnName.parse(str(ColumnName(name, column))) == ColumnName(name, column)
    assert pickle.loads(pickle.dumps(name)) == name


@given(names, names)
@example(TableName("a.b", "c"), TableName("a", "b.c"))
@example(TableName("a_", "b"), TableName("a", "_b"))
@example(TableName("д" * 31, "д" * 31), TableName("д" * 31, "д" * 30 + "ж"))
def test_names_in_the_lake_are_unique_and_short_enough_for_any_file_system(
    one: TableName, other: TableName
):
    for encoded in (folder_name, iceberg_name):
        assert (encoded(one) == encoded(other)) == (one == other)
        assert encoded(one).isascii()
        assert len(encoded(one)) <= 200
    assert (file_name(str(one)) == file_name(str(other))) == (one == other)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        (TableName("public", "account"), "public.account"),
        (TableName("public", "Odd-1"), "public.Odd-1"),
        (TableName("a.b", "c"), "a~2eb.c"),
        (TableName("a", "tick`s"), "a.tick~60s"),
    ],
)
def test_folder_of_an_ordinary_name_is_the_name(name: TableName, folder: str):
    assert folder_name(name) == folder


@pytest.mark.parametrize("text", ["", "account", "a.b.c", 'a."b', "a.", ".b", 'a."b"c', 'a.""'])
def test_name_with_another_number_of_parts_is_refused(text: str):
    with pytest.raises(
        ConfigurationError, match=r"is not the name of a table; write schema\.table"
    ):
        TableName.parse(text)
    with pytest.raises(ConfigurationError, match=r"is not the name of a column"):
        ColumnName.parse(f"{text}.x")


def test_names_are_quoted_as_the_server_quotes_them(database_18: Database):
    odd = ["a", "_a", "A", "a.b", 'a"b', "a b", "ä", "1", "a1", "a$"]
    with database_18.connect() as connection:
        words = [word for (word,) in connection.execute("select word from pg_get_keywords()")]
        texts = connection.execute(
            "select w, format('%%I.%%I', w, 't') from unnest(%s::text[]) as w", (words + odd,)
        ).fetchall()

    assert [str(TableName(word, "t")) for word, _ in texts] == [text for _, text in texts]
