"""What the package promises, seen from Python."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest

import sekisho

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "crates/formats/tests/models"
OHMAE = ROOT / "studies/ohmae/software-bottleneck.toml"

QUEUE = {
    "sekisho": 1,
    "name": "one queue",
    "class": [{"name": "web", "rate": "50/s", "route": ["cpu"]}],
    "station": [
        {
            "name": "cpu",
            "kind": "queue",
            "demand": {"mean": "10ms", "dist": "exponential"},
        }
    ],
}


def changed(path: list[str | int], value: object) -> dict:
    """The queue with one thing changed."""
    model = copy.deepcopy(QUEUE)
    part = model
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return model


def test_a_queue_has_the_numbers_of_the_textbook():
    table = sekisho.solve(QUEUE)
    assert list(table.columns) == list(sekisho.COLUMNS)
    row = table.iloc[0]
    assert (row.Station, row.Class) == ("cpu", "web")
    # M/M/1 with rho = 1/2.
    wanted = [1.0, 0.5, 0.02, 0.02, 50.0, 50.0]
    assert row[2:].tolist() == pytest.approx(wanted, rel=1e-12)
    assert table.attrs["exact"] is True and table.attrs["error"] is None
    assert table.attrs["algorithm"].startswith("M/M/1")
    assert table.attrs["classes"][0]["response_s"] == pytest.approx(0.02)
    queue = table.attrs["queue"]
    assert queue["jobs"] == pytest.approx(table.iloc[0]["QLen"])
    assert queue["response_variance_s2"] == pytest.approx(0.02**2)
    assert queue["wait_probability"] == pytest.approx(table.iloc[0]["Util"])


def test_the_simulation_agrees_within_its_intervals():
    formula = sekisho.solve(QUEUE).iloc[0]
    table = sekisho.simulate(QUEUE, precision=0.01)
    assert table.attrs["precise"] and table.attrs["seed"] == 1
    row = table.iloc[0]
    for column in sekisho.COLUMNS[2:]:
        half = row[f"{column}_hw"]
        assert 0 < half < 0.05 * row[column], column
        # Four half-widths of 95 %: seed 1 is within, and a wrong number is not.
        assert abs(row[column] - formula[column]) < 4 * half, column
    again = sekisho.simulate(QUEUE, precision=0.01, threads=1)
    pd.testing.assert_frame_equal(table, again)
    other = sekisho.simulate(QUEUE, precision=0.01, seed=2)
    assert other.QLen[0] != table.QLen[0]


@pytest.mark.parametrize(
    ("mean", "bound"), [("2h", "at-least"), ("100ns", "at-most"), ("10ms", None)]
)
def test_a_quantile_that_no_histogram_tells_is_a_bound(mean, bound):
    model = copy.deepcopy(QUEUE)
    del model["class"][0]["rate"]
    model["class"][0] |= {"population": 5, "think": {"mean": "1s", "dist": "exponential"}}
    model["station"][0] |= {
        "kind": "delay",
        "demand": {"mean": mean, "dist": "exponential"},
    }
    table = sekisho.simulate(model, precision=0.2)
    median = table.attrs["classes"][0]["response_quantiles_s"]["0.5"]
    assert median["bound"] == bound
    if bound == "at-least":
        assert median["mean"] >= 3600 and median["half_width"] is None
    (asked,) = sekisho.ask(model, clients=[5]).p50_bound
    assert asked == bound


def test_the_hits_of_a_cache_are_attributes():
    # LRU of two keys that remembers one: each hits as often as it was asked for last.
    model = {
        "sekisho": 1,
        "name": "cache",
        "class": [
            {
                "name": "c",
                "rate": "10/s",
                "route": [{"lookup": "pages", "hit": ["near"], "miss": ["disk"]}],
            }
        ],
        "cache": [
            {"name": "pages", "capacity": 1, "keys": 2, "order": "weighted", "weights": [3, 1]}
        ],
        "station": [
            {"name": "near", "kind": "delay", "demand": "1ms"},
            {"name": "disk", "kind": "delay", "demand": "8ms"},
        ],
    }
    (cache,) = sekisho.solve(model).attrs["caches"]
    assert cache["hit_ratio"] == 0.625 and cache["hits"] == [0.75, 0.25]


def test_text_paths_and_dictionaries_are_the_same_model():
    by_path = sekisho.solve(OHMAE)
    by_text = sekisho.solve(OHMAE.read_text(encoding="utf-8"))
    by_name = sekisho.solve(str(OHMAE))
    pd.testing.assert_frame_equal(by_path, by_text)
    pd.testing.assert_frame_equal(by_path, by_name)
    with OHMAE.open("rb") as file:
        pd.testing.assert_frame_equal(by_path, sekisho.solve(tomllib.load(file)))
    assert by_path.Station.tolist()[:3] == ["tasks", "servers", "dispatch"]
    assert math.isnan(by_path.Util[2]), "a delay has no utilisation"


def test_files_of_other_tools_are_solved():
    ring = sekisho.solve(MODELS / "ring.jmva")
    assert ring.Tput[0] == pytest.approx(0.953956715634138, rel=1e-12)
    rough = sekisho.solve(MODELS / "ring.jmva", method="linearizer")
    assert rough.attrs["exact"] is False and 0 < rough.attrs["error"] < 0.2
    assert rough.Tput[0] == pytest.approx(ring.Tput[0], rel=0.01)
    mixed = sekisho.solve(MODELS / "mixed.jmva")
    assert len(mixed) == 7 and len(mixed.attrs["classes"]) == 3
    pool = sekisho.solve(MODELS / "pool.lqn")
    assert pool.loc[pool.Station == "disk", "Class"].item() == "(all)"
    # A Markov chain says 16.1624/s for a geometric number of reads; one each time is about 1 % more.
    simulated = sekisho.simulate(MODELS / "pool.lqnx", precision=0.01)
    assert simulated.loc[simulated.Station == "pool", "Tput"].item() == pytest.approx(
        16.1624, rel=0.03
    )


def test_little_holds_in_every_row():
    for table in (
        sekisho.solve(OHMAE),
        sekisho.solve(MODELS / "mixed.jmva"),
        sekisho.simulate(OHMAE, precision=0.05),
    ):
        # In a simulation, jobs that are there at the end have no response time yet.
        assert (table.QLen - table.Tput * table.RespT).abs().max() < 0.02 * table.QLen.max()


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        (["name"], 3, "invalid type: integer `3`"),
        (["station", 0, "kindd"], "queue", "unknown key `kindd`; did you mean `kind`?"),
        (["class", 0, "rate"], "50", '`50` is not a rate such as "200/s"'),
        (["class", 0, "rate"], 50, "a rate such as"),
        (["class", 0, "route"], ["cpuu"], "did you mean `cpu`"),
        (["class", 0, "rate"], "100/s", "no steady state"),
        (["class"], [], "nobody asks for anything"),
    ],
)
def test_what_is_wrong_is_said_as_the_command_says_it(path, value, wanted):
    with pytest.raises(sekisho.SekishoError) as error:
        sekisho.solve(changed(path, value))
    assert wanted in str(error.value)
    assert str(error.value).startswith("scenario: ")
    assert isinstance(error.value, ValueError)


def test_errors_of_files_name_the_line(tmp_path):
    path = tmp_path / "wrong.jmva"
    text = (MODELS / "mixed.jmva").read_text(encoding="utf-8")
    path.write_text(text.replace('population="6"', 'population="0"'), encoding="utf-8")
    with pytest.raises(sekisho.SekishoError) as error:
        sekisho.solve(path)
    assert str(error.value).startswith(f"{path}:6: the population of class `readers` is 0")
    with pytest.raises(FileNotFoundError):
        sekisho.solve(tmp_path / "absent.toml")


def test_options_are_checked():
    with pytest.raises(sekisho.SekishoError, match="there is no method `mva`"):
        sekisho.solve(QUEUE, method="mva")
    with pytest.raises(sekisho.SekishoError, match="precision"):
        sekisho.simulate(QUEUE, precision=0)
    with pytest.raises(sekisho.SekishoError, match="replications"):
        sekisho.simulate(QUEUE, replications=1)
    with pytest.raises(sekisho.SekishoError, match="grows without end"):
        sekisho.simulate(changed(["class", 0, "rate"], "200/s"))
    few = sekisho.simulate(QUEUE, precision=0.0001, max_requests=20_000)
    assert few.attrs["precise"] is False


def test_the_example_in_the_documentation_works():
    import doctest

    failed, tried = doctest.testmod(sekisho)
    assert tried > 0 and failed == 0


RECORDS = [ROOT / "python/tests" / name for name in ("1.jsonl", "32.jsonl")]
KNEES = ROOT / "fuzz/seeds/knee_record"


def test_records_are_rows():
    table = sekisho.read_runs(RECORDS)
    assert table.Class.tolist() == ["(all)", "1k", "20k", "100k"] * 2
    whole = table[table.Class == "(all)"].set_index("Clients")
    assert whole.index.tolist() == [1, 32] and whole.Rate.isna().all()
    assert whole.Valid.all() and (whole.Failed == 0).all()
    parts = table[table.Class != "(all)"].groupby("Clients").Completed.sum()
    assert parts.tolist() == whole.Completed.tolist()
    # One client that never thinks: a request after the other. Of 32 the slots are always busy.
    assert whole.X[1] * whole.R[1] == pytest.approx(1, rel=0.05)
    assert whole.X[32] * whole.R[32] == pytest.approx(32, rel=0.05)
    assert (whole.p50 <= whole.p90).all() and (whole.p95 <= whole.p99).all()
    assert whole[["p50_bound", "p99_bound"]].isna().all(axis=None)
    assert (whole.R_hw > 0).all() and (whole.R_max >= whole.p99 * 0.999).all()
    assert sekisho.read_runs(str(RECORDS[0])).Run.nunique() == 1


def test_histograms_and_intervals_are_those_of_the_run():
    run = sekisho.read_runs(RECORDS[1]).set_index("Class")
    for document in (None, "20k"):
        row = run.loc[document or "(all)"]
        table = sekisho.read_histogram(RECORDS[1], document)
        assert table.Count.sum() == row.Completed
        assert table.Share.iloc[-1] == 1 and table.R.is_monotonic_increasing
        mean = (table.R * table.Count).sum() / table.Count.sum()
        # Values are told apart to three digits.
        assert mean == pytest.approx(row.R, rel=2e-3)
        assert table.R[table.Share >= 0.99].iloc[0] == pytest.approx(row.p99, rel=0.02)
    intervals = sekisho.read_intervals(RECORDS[1])
    assert len(intervals) == 60 and (intervals.Length == 1).all()
    steady = intervals[intervals.Start >= intervals.attrs["warmup_s"]]
    assert steady.Completed.sum() == run.Completed["(all)"]
    with pytest.raises(sekisho.SekishoError, match="no class is called `2k`; there is 1k, 20k"):
        sekisho.read_histogram(RECORDS[1], "2k")


def test_searches_for_a_knee_are_tables():
    paths = [KNEES / "found.knee.json", KNEES / "undecided.knee.json"]
    found, undecided = sekisho.read_knees(paths).itertuples()
    assert (found.Limit, found.Quantile, found.R_limit) == ("p99<50ms", 0.99, 0.05)
    assert found.Decided and (found.Low, found.High) == (found.Low_seen, found.High_seen)
    assert found.Low < found.High and pd.isna(found.Why)
    # Its ends were seen once, and nothing is believed of them.
    assert not undecided.Decided and undecided.Why == "budget"
    assert undecided.Low_seen < undecided.High_seen
    assert math.isnan(undecided.Low) and math.isnan(undecided.High)
    probes = sekisho.read_probes(paths[0])
    assert len(probes) == found.Probes and set(probes.Outcome) == {"holds", "fails"}
    assert (probes[probes.Rate == found.Low].Outcome == "holds").all()
    assert probes.attrs["limit_s"] == 0.05 and (probes.R_low <= probes.R).all()
    with pytest.raises(sekisho.SekishoError, match="1.jsonl: line 1"):
        sekisho.read_knees(RECORDS[0])
    with pytest.raises(sekisho.SekishoError, match="found.knee.json"):
        sekisho.read_runs(paths[0])


def test_a_fit_finds_the_truth_and_is_a_model():
    table = sekisho.fit(RECORDS, cores=1, slots=4).set_index("Parameter")
    assert table.attrs["by"] == "sizes" and table.attrs["left_out"] == []
    # The truth of the records, which wobble by 3 %: 50 ns a byte and 1 ms a request.
    assert table.Value["per-byte"] == pytest.approx(50e-9, rel=0.1)
    assert table.Unit["per-byte"] == "s/byte"
    assert (table.Low <= table.Value).all() and (table.Value <= table.High).all()
    answers = sekisho.ask(table.attrs["scenario"], clients=[1, 32], slots=[4, 8])
    assert answers[["Clients", "Slots"]].values.tolist() == [[1, 4], [32, 4], [1, 8], [32, 8]]
    measured = sekisho.read_runs(RECORDS)
    measured = measured[measured.Class == "(all)"].set_index("Clients")
    for row in answers[answers.Slots == 4].itertuples():
        assert row.X == pytest.approx(measured.X[row.Clients], rel=0.1)
        assert row.X_hw >= 0 and row.p50 <= row.p99
    solved = sekisho.ask(QUEUE, rates=[50.0]).iloc[0]
    assert solved.R_formula == pytest.approx(0.02) and math.isnan(solved.Clients)
    assert solved.R == pytest.approx(0.02, rel=0.05)


def test_what_is_no_record_or_does_not_suffice_says_so(tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(sekisho.SekishoError, match="broken.jsonl"):
        sekisho.read_runs([broken])
    with pytest.raises(sekisho.SekishoError):
        sekisho.fit(RECORDS[0])
    with pytest.raises(FileNotFoundError):
        sekisho.read_intervals(tmp_path / "gone.jsonl")


def test_without_pandas_it_is_imported_and_says_what_is_missing():
    script = (
        "import sys; sys.modules['pandas'] = None\n"
        "import sekisho\n"
        f"try: sekisho.read_runs({str(RECORDS[0])!r})\n"
        "except ImportError as error: print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "pip install 'pandas>=2'" in ended.stdout, ended
