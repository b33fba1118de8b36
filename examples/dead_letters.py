"""Dead letters: messages are dead-lettered after their last attempt, with the reason, and redriven after a fix.

    pgsluice schema install
    python dead_letters.py setup
    pgsluice worker run dead_letters:app --until-empty     # exit code 1: there are dead letters
    pgsluice dead-letters list labels
    touch fixed
    pgsluice dead-letters redrive labels --all
    pgsluice worker run dead_letters:app --until-empty
    python dead_letters.py show

The last command prints

    printed: 1 2 3
    dead letters: 0
"""

from __future__ import annotations

import sys
from pathlib import Path

from pgsluice import DeadLetters, WorkQueue, connect
from pgsluice.worker import App, RetryPolicy, SyncContext

app = App(name="dead letters")


class PaperJamError(Exception):
    """Paper jam in the printer."""


@app.handler("labels", retry=RetryPolicy(max_attempts=2, backoff_base_s=0), give_up_on=[ValueError])
def print_label(label: int, context: SyncContext) -> None:
    """Print a label: two attempts after a paper jam, no retry of an invalid label."""
    if not Path("fixed").exists():
        if label == 2:
            raise PaperJamError("tray 2")
        if label == 3:
            raise ValueError("label 3 has no text")
    with context.transaction() as connection:
        connection.execute("insert into printed (label) values (%s)", (label,))


def setup() -> None:
    with connect() as connection:
        connection.execute("create table printed (label integer primary key)")
        WorkQueue(connection).create("labels")
        print_label.send_many([1, 2, 3], connection=connection)


def show() -> None:
    with connect() as connection:
        labels = [
            str(label) for (label,) in connection.execute("select label from printed order by 1")
        ]
        print("printed:", *labels)
        print("dead letters:", DeadLetters(connection, "labels").count())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["setup"]:
            setup()
        case ["show"]:
            show()
        case _:
            sys.exit("use setup or show")
