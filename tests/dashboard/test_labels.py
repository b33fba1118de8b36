"""Cells of tables have the heads of their columns, which narrow windows show beside them."""

from __future__ import annotations

import re

from pgsluice.dashboard.rendering import labelled


def test_cells_have_the_heads_of_their_columns(client, work):
    work.create("orders")

    text = client.get("/queues").text

    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', text)
    assert len(heads) == 11
    assert re.findall(r'data-label="([^"]+)"', text) == heads[1:], (
        "the first is the title of the card"
    )


def test_cell_of_several_columns_has_no_head_and_the_next_one_its_own():
    table = (
        "<table><thead><tr><th>A</th><th>B</th><th>C</th><th>D <b>d</b></th></tr></thead>"
        '<tr><th>1</th><td colspan="2">2</td><td>3</td></tr></table>'
    )

    row = labelled(table).partition("</thead>")[2]

    assert row == ('<tr><th>1</th><td colspan="2">2</td><td data-label="D d">3</td></tr></table>')


def test_text_that_looks_like_a_table_stays_a_text(client, work):
    evil = "</thead><td>x</td></table>"
    work.create("orders")
    work.send("orders", evil)

    text = client.get("/messages?queue=orders").text

    assert "&lt;/thead&gt;&lt;td&gt;x" in text
    assert "<td>x" not in text
