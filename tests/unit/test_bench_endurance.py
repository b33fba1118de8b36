"""The verdict on long runs, and the numbers it is made from."""

from __future__ import annotations

import pytest
from bench.endurance import parts, plots, running
from bench.endurance.numbers import Counter, Numbers
from bench.endurance.parts import PARTS, chosen, number_of
from bench.endurance.sampling import Sample, read_samples, series
from bench.endurance.verdict import judge, memory_read_ns

from pgsluice.errors import ConfigurationError

SAMPLES, SLICES, STEP_S = 360, 4, 10.0
SIZES = {
    "endurance_backlog": 200_000,
    "retained_messages": 1_000_000,
    "retained_partition": 100_000,
}
MB = 1_000_000


def flat(at: int) -> Sample:
    """Return a sample of a run that neither slows down nor grows."""
    place = at % (SAMPLES // SLICES)
    return Sample(
        slice=1 + at * SLICES // SAMPLES,
        at_s=at * STEP_S,
        clock_s=at * STEP_S,
        done=100_000 * at,
        sent=100_000 * at + 50_000,
        flags=["held"] if 15 <= place < 30 else [],
        latencies={"claim": [1.0] * 99 + [5.0], "tick": [2.0] * 100},
        memory={"worker": 40.0 + at % 2, "maintain": 33.0, "backend": 15.0 + at % 3},
        cpu_s=6.0,
        disk={"base": 500.0 + 200.0 * (15 <= place < 30), "pg_wal": 1000.0, "temporary files": 0.0},
        relations={
            # The held snapshot of the second slice raises it for good.
            "pgmq.q_endurance": [80 * MB if at < 110 else 900 * MB, 5_000, 1, None],
            "pgmq.a_endurance_P#": [200 * MB, 0, 15, None],
            "pgq.tick_#_#": [3 * MB * (at % 30), 0, 7, 1_500 * (at % 30)],
            "sluice.sample_#": [2 * MB + 2_000 * at, 0, 9, 10 * at],
            "sluice.process": [65_536, 9, 1, 2],
        },
        facts={"xid_age": 199_000_000 + 10_000 * at if at <= 100 else 10_000 * at, "multixact_age": 0, "relations": 900, "statistics": 800},
        sequences={"pgq.batch_id_seq": 1e-12 * at, "sluice.sample_turn": 2e-7 + 1e-13 * at},
    )  # fmt: skip


def run(**changes) -> list[Sample]:
    """Return a run in which a field of a sample, a dictionary, has some entries as a function of its index."""
    samples = [flat(at) for at in range(SAMPLES)]
    for name, change in changes.items():
        for at, sample in enumerate(samples):
            if isinstance(getattr(sample, name), dict):
                getattr(sample, name).update(change(at))
            else:
                setattr(sample, name, change(at))
    return samples


def missed(samples: list[Sample], part: str = "archive") -> list[str]:
    return [
        finding.question for finding in judge(samples, PARTS[part], SIZES) if not finding.reached
    ]


@pytest.mark.parametrize("part", PARTS)
def test_the_verdict_accepts_a_flat_run(part):
    assert missed(run(), part) == []


def relation(size: float = 0, rows: float | None = 0) -> dict[str, list[int | None]]:
    return {"sluice.planted": [round(size), 0, 1, None if rows is None else round(rows)]}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"done": lambda at: 100_000 * at if at < 300 else 30_000_000 + 94_000 * (at - 300)}, ["messages a second"]),
        ({"latencies": lambda at: {"claim": [1.0] * 95 + [5.0 + at / 40] * 5}}, ["p99 of a claim, ms"]),
        ({"latencies": lambda at: {"tick": [2.0 if at < 300 else 3.1] * 100}}, ["p99 of a tick, ms"]),
        ({"memory": lambda at: {"worker": 40 + at % 90 * 0.2}}, ["memory of worker, MB"]),
        ({"memory": lambda at: {"backend": 40 if at % 90 < 80 else 100}}, ["memory of backend, MB"]),
        ({"disk": lambda at: {"temporary files": at}}, ["disk, temporary files, MB"]),
        ({"disk": lambda at: {"pg_wal": 1000 + 500 * (at // 90)}}, ["disk, pg_wal, MB"]),
        ({"facts": lambda at: {"relations": 900 + at}}, ["catalog, relations"]),
        ({"relations": lambda at: relation(size=10_000 * at)}, ["sluice.planted, bytes"]),
        ({"relations": lambda at: relation(rows=20 * at)}, ["sluice.planted, rows"]),
        ({"relations": lambda at: relation(rows=20 * at - 2_000 * (at // 120))}, ["sluice.planted, rows"]),
        ({"relations": lambda at: {"sluice.sample_#": [MB, 0, 9, 200 * at]}}, ["sluice.sample_#, rows"]),
        ({"facts": lambda at: {"xid_age": 199_000_000 + 20_000 * at}}, ["age of transaction ids, largest and at the end"]),
        ({"sequences": lambda at: {"a_seq": 0.5 + 1e-6 * at}}, ["years until sequence a_seq ends, the first to end"]),
    ],
)  # fmt: skip
def test_the_verdict_finds_what_grows_or_slows_down(changes, found):
    assert missed(run(**changes), "log") == found


@pytest.mark.parametrize(
    "changes",
    [
        {"relations": lambda at: relation(rows=50_000 if at > 320 else 0)},
        {"relations": lambda at: relation(size=10 * MB * (at % 45), rows=None)},
        {"disk": lambda at: {"base": 500 if at < 200 else 5_000}},
        {"memory": lambda at: {"worker": 60 if at % 90 < 2 else 40}},
        {"facts": lambda at: {"relations": 900 + at % 40}},
    ],
)
def test_the_verdict_accepts_single_rises_and_cycles(changes):
    assert missed(run(**changes), "log") == []


def test_time_of_a_read_of_memory_is_the_median_of_the_first_and_the_last_tenth():
    reads = [100.0 if at < SAMPLES / 2 else 250.0 for at in range(SAMPLES)]

    assert memory_read_ns(run(memory_read_ns=reads.__getitem__)) == (100.0, 250.0)
    assert memory_read_ns(run()) == (None, None)


def test_an_archive_above_its_retention_is_found():
    size = {"pgmq.a_endurance_P#": [600 * MB, 0, 15, None]}
    assert missed(run(relations=lambda _at: size)) == ["archive at its largest, bytes"]


def test_a_run_with_too_few_samples_is_not_judged():
    (finding,) = judge(run()[:10], PARTS["queue"], SIZES)
    assert finding.reached is None


def test_a_run_that_does_not_come_to_the_age_of_freezing_shows_nothing_of_it():
    found = {
        finding.question: finding.reached
        for finding in judge(
            run(facts=lambda at: {"xid_age": 199_500_000 + at}), PARTS["queue"], SIZES
        )
    }
    assert found["age of transaction ids, largest and at the end"] is None


def test_numbers_are_counted_once_in_any_order():
    numbers = Numbers(5)
    numbers.add([6, 5, 8, 8, 4])
    numbers.add([7, 9, 5])

    assert (numbers.handled, numbers.redelivered) == (5, 2)
    assert numbers._above == set()


def test_a_counter_returns_zeros_until_it_is_written(tmp_path):
    counter = Counter(tmp_path / "worker")
    assert counter.read() == (0, 0)
    counter.write(12, 3)
    assert Counter(tmp_path / "worker").read() == (12, 3)


def test_a_sample_that_a_kill_cut_off_is_left_out(tmp_path):
    file = tmp_path / "samples"
    file.write_text(f"{flat(1).line()}\n{flat(2).line()}\n{flat(3).line()[:100]}")

    assert read_samples(file) == [flat(1), flat(2)]


def test_names_of_partitions_and_segments_are_one_series():
    assert series("pgmq.a_endurance_P500000") == "pgmq.a_endurance_P#"
    assert number_of("000000000042xxx") == number_of(b"000000000042xxx") == 42


def test_a_part_is_chosen_by_its_name():
    assert [part.name for part in chosen("")] == ["queue", "archive", "log"]
    assert [part.name for part in chosen("log")] == ["log"]
    with pytest.raises(ConfigurationError, match="choose from: queue, archive, log"):
        chosen("logs")


def test_the_plots_show_the_series_of_a_report():
    drawn = running.series(run())
    report = {
        "title": "work queue", "done": 3_000, "at": "2026-01-02", "series": drawn,
        "machine": {"processor": "Chip", "cores": 2, "memory_gb": 8.0}, "server": {"server_version": "18.4"},
    }  # fmt: skip

    svg = plots.page([report, report])

    assert len(drawn["hours"]) <= running.POINTS * 2
    for text in ("work queue", "throughput", "messages a second", "all of the server", "2 cores"):
        assert text in svg


def test_a_finished_run_continues_with_more_messages_and_refuses_other_sizes(tmp_path, monkeypatch):
    current = running.Run(tmp_path, PARTS["log"])
    sizes = parts.sizes(parts.OPTIONS)
    current.folder.mkdir()
    current._write({"sizes": sizes, "slices": [{"sent": parts.OPTIONS["endurance_events"]}]})
    assert current.is_finished

    monkeypatch.setitem(parts.OPTIONS, "endurance_events", 1_000_000_000)
    assert not current.is_finished
    monkeypatch.setitem(parts.OPTIONS, "endurance_backlog", 1)
    with pytest.raises(ConfigurationError, match="other sizes: .*'endurance_backlog': 200000"):
        current.run_slice()
