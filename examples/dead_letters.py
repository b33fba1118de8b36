"""Dead letters: what fails too often is kept with its reason, and sent again when the handler is mended.

    pgsluice schema install
    python dead_letters.py setup
    pgsluice worker run dead_letters:app --until-empty     # exits with 1: there are dead letters
    pgsluice queue browse labels --in dead
    touch mended
    pgsluice queue replay labels --dead --all
    pgsluice worker run dead_letters:app --until-empty
    python dead_letters.py show

The last one prints

    printed: 1 2 3
    dead letters: 0
"""

from __future__ import annotations

import sys
from pathlib import Path

from pgsluice import WorkQueue, connect, resolve
from pgsluice.worker import App, RetryPolicy, SyncContext

app = App(name="dead letters")


class PaperJamError(Exception):
    """The printer is stuck."""


@app.handler("labels", retry=RetryPolicy(max_attempts=2, first_delay_s=0), give_up_on=[ValueError])
def print_label(label: int, context: SyncContext) -> None:
    """Print a label. Two attempts for a paper jam; none for a label that is no label."""
    if not Path("mended").exists():
        if label == 2:
            raise PaperJamError("tray 2")
        if label == 3:
            raise ValueError("label 3 has no text")
    with context.transaction() as connection:
        connection.execute("insert into printed (label) values (%s)", (label,))


def setup() -> None:
    with connect(resolve()) as connection:
        connection.execute("create table printed (label integer primary key)")
        WorkQueue(connection).create("labels")
        print_label.send_many([1, 2, 3], connection=connection)


def show() -> None:
    with connect(resolve()) as connection:
        labels = [
            str(label) for (label,) in connection.execute("select label from printed order by 1")
        ]
        print("printed:", *labels)
        print("dead letters:", WorkQueue(connection).count_dead_letters("labels"))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["setup"]:
            setup()
        case ["show"]:
            show()
        case _:
            sys.exit("use setup or show")
