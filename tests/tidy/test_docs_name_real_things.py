"""Paths, links, commands, options, functions and tables that a page names exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import psycopg
import pytest

from pgsluice.cli.main import cli
from support import rows

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pgsluice"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src").rglob("*.md"),
        *(ROOT / "bench").rglob("*.md"),
    ]
)
# The rules of style use invented names to show a point.
PAGES = [path for path in PAGES if path.name != "STYLE.md"]
PROGRAMS = sorted(
    path for top in ("bench", "examples", "tools") for path in (ROOT / top).rglob("*.py")
)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"`([^`\n]+)`")
NAMED = re.compile(
    r"(?<![\w/.-])(pgmq|pgq|pgq_coop|sluice)\.([a-z_][a-z0-9_]*)(?![\w.]*\.(?:md|py|sql))"
)
# Written like an object of ours and none: files, notification channels, settings, a type of events, beginnings of names, and the names and keys that depend on a queue.
NO_OBJECT = re.compile(
    r"(md|py|sql)$|[qa]_\w*$|event_\w*$|\w*_$|partition_manager$|notifier$|partition$|(tick|ticker|rotate)_after$"
)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


# Folders that `make check`, `make site` and a build of the package write; a clone has none.
OUTPUT = {"build", "dist"}


def tops() -> set[str]:
    """The first parts of a path that make it one of ours."""
    places = [*ROOT.iterdir(), *PACKAGE.iterdir(), *(PACKAGE / "sql").iterdir()]
    names = {place.name for place in places if place.is_dir() and not place.name.startswith("__")}
    return names - OUTPUT


def paths_in(text: str) -> list[str]:
    """Return quoted paths of the project, without placeholders."""
    quoted = QUOTED.findall(FENCE.sub("", text))
    return [
        item.removesuffix("/")
        for item in quoted
        if re.fullmatch(r"[\w.*/-]+", item)
        and "/" in item
        and item.split("/")[0] in tops()
        and not re.fullmatch(r"(pgsluice|sluice)/[\w-]+", item)
    ]


def missing_paths(page: Path, text: str) -> list[str]:
    places = (ROOT, PACKAGE, PACKAGE / "sql", page.parent)
    return [item for item in paths_in(text) if not any(list(place.glob(item)) for place in places)]


def missing_links(page: Path, text: str) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text))
    local = [target for target in targets if not re.match(r"[a-z]+:|#", target)]
    return [target for target in local if not (page.parent / target.split("#")[0]).exists()]


# A word for any command, such as COMMAND or {command}.
PLACEHOLDER = re.compile(r"[A-Z<{….\\]")
TEMPLATES = sorted((PACKAGE / "dashboard" / "templates").glob("*.html"))
IN_TEMPLATE = re.compile(r"(?:'|<code>)(pgsluice [^'<]*)")


def commands_in(text: str) -> list[list[str]]:
    """Each `pgsluice …`, quoted or on a line of a fence, up to what the shell or a placeholder ends."""
    lines = [line.strip() for fence in FENCE.findall(text) for line in fence.splitlines()[1:-1]]
    lines = [re.sub(r"\s+#.*", "", line) for line in lines]
    candidates = [*lines, *QUOTED.findall(FENCE.sub("", text))]
    found = []
    for line in candidates:
        for part in re.split(r"\||&&|;", line):
            match = re.match(r"\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/)?pgsluice((?: \S+)*)\s*$", part)
            if match:
                found.append(match[1].split())
    return found


def unknown_in_command(words: list[str]) -> str | None:
    """Return the first word that the command line would not accept, or None."""
    command: click.Command = cli
    context = click.Context(cli)
    for word in words:
        name = word.split("=")[0]
        if name.startswith("-"):
            options = {
                option
                for parameter in command.get_params(click.Context(command))
                for option in (*parameter.opts, *parameter.secondary_opts)
            }
            if name not in options | {"-h"}:
                return name
        elif isinstance(command, click.Group) and not PLACEHOLDER.match(word):
            inner = command.get_command(context, word)
            if inner is None:
                return word
            command = inner
    return None


def unknown_commands(text: str) -> list[str]:
    return [
        f"pgsluice {' '.join(words)}: {unknown}"
        for words in commands_in(text)
        if (unknown := unknown_in_command(words)) is not None
    ]


def upstream_only(text: str) -> set[str]:
    """Return names that a page lists as absent, under such a heading or on such a line."""
    listed = re.findall(
        r"^#+ [^\n]*\b(?:not here|upstream only)\b.*?(?=^#|\Z)",
        text,
        re.MULTILINE | re.DOTALL | re.IGNORECASE,
    )
    listed += re.findall(r"^.*\bupstream only\b.*$", text, re.MULTILINE | re.IGNORECASE)
    return {f"{schema}.{name}" for part in listed for schema, name in NAMED.findall(part)}


def unknown_objects(text: str, objects: set[str]) -> list[str]:
    found = {
        f"{schema}.{name}" for schema, name in NAMED.findall(text) if not NO_OBJECT.fullmatch(name)
    }
    return sorted(found - objects - upstream_only(text))


@pytest.fixture(scope="module")
def objects(server_18):
    """Every function, relation and type of the installed schemas, as schema.name."""
    query = """
        select n.nspname || '.' || o.name
        from pg_namespace as n
        join (
            select pronamespace as schema, proname as name from pg_proc
            union select relnamespace, relname from pg_class
            union select typnamespace, typname from pg_type
        ) as o on o.schema = n.oid
        where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
    """
    with psycopg.connect(server_18.url("sluice_template")) as connection:
        return {name for (name,) in rows(connection, query)}


def test_there_are_pages():
    assert ROOT / "README.md" in PAGES


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_names_only_paths_that_exist(page):
    assert missing_paths(page, page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_links_only_to_what_exists(page):
    assert missing_links(page, page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_names_only_commands_and_options_that_exist(page):
    assert unknown_commands(page.read_text()) == []


@pytest.mark.parametrize("template", TEMPLATES, ids=named)
def test_a_template_of_the_dashboard_names_only_commands_that_exist(template):
    commands = "".join(f"`{text}`\n" for text in IN_TEMPLATE.findall(template.read_text()))

    assert unknown_commands(commands) == []


def test_templates_of_the_dashboard_name_commands():
    assert sum(len(IN_TEMPLATE.findall(template.read_text())) for template in TEMPLATES) > 10


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_names_only_functions_and_tables_that_exist(page, objects):
    assert unknown_objects(page.read_text(), objects) == []


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_a_program_names_only_functions_and_tables_that_exist(program, objects):
    """Most workloads of the benchmark run in no test."""
    assert unknown_objects(program.read_text(), objects) == []


BAD_PAGE = """
See `src/pgsluice/nowhere.py`, `client/calls`, `sql/pgmq/functions/*.sql` and `tests/db/pgmq/test_teleport.py`,
[a page](docs/none.md) and [the readme](README.md). Run `pgsluice schema install --dsn URL`, `pgsluice schema implode`
or `pgsluice --frobnicate` or `pgsluice worker app:app`. Call `pgmq.send`, `pgmq.teleport(1)`, `sluice.dead_letter` and pgq.nothing; `pgmq.q_orders`.

```bash
$ pgsluice status --json | jq .  # fine
.venv/bin/pgsluice statsu
PGSLUICE_DSN=x pgsluice embedded start --turbo
```

## Not here

`pgmq.send_topic`
"""


def test_missing_object_is_reported(objects):
    page = ROOT / "page.md"

    assert missing_paths(page, BAD_PAGE) == [
        "src/pgsluice/nowhere.py", "tests/db/pgmq/test_teleport.py",
    ]  # fmt: skip
    assert missing_links(page, BAD_PAGE) == ["docs/none.md"]
    assert [line.rpartition(" ")[2] for line in unknown_commands(BAD_PAGE)] == [
        "statsu", "--turbo", "implode", "--frobnicate", "app:app",
    ]  # fmt: skip
    assert unknown_objects(BAD_PAGE, objects) == ["pgmq.teleport", "pgq.nothing"]
