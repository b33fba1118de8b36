import pytest

from support import value


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("'orders'", 4),
        ("'orders', 'archive'", 4),
        ("'orders', 'queue', '{\"odd\": true}'", 2),
        ("'orders', 'archive', conditional_headers => '{\"h\": 1}'", 2),
        ("'orders', 'archive', since => now() + interval '1 h'", 0),
        ("'orders', 'archive', until => now() + interval '1 h'", 4),
        ("'again'", 0),
    ],
)
def test_messages_matching_a_filter_are_counted(orders, arguments, wanted):
    assert value(orders, f"select sluice.count_messages({arguments})") == wanted


@pytest.mark.slow
def test_a_range_of_times_of_an_archive_is_counted_by_its_index(large, buffers):
    query = (
        "select sluice.count_messages('large', 'archive', "
        "since => '2026-01-03 20:00+00', until => '2026-01-03 20:10+00')"
    )

    assert value(large, query) == 600
    assert buffers(query) < 60
