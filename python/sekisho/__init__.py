"""Queueing models, solved by formula and by simulation, and records of runs, as pandas tables.

``solve`` and ``simulate`` answer a model, ``ask`` asks it about other loads and slots. ``read_runs``,
``read_intervals`` and ``read_histogram`` read the records that ``sekisho measure`` keeps, ``read_knees`` and
``read_probes`` those of its searches for a knee, and ``fit`` makes a model of runs. Times are in seconds, rates per second.

A model is a scenario (a dictionary, TOML text or the path of a file), or the path of a file of
another tool: ``.jmva``, ``.lqn`` or ``.lqnx``. Both functions give a table with the columns

======== ==================================================================================
Station  a gate or station; of a layered model, a task or processor
Class    the class of jobs, or the entry of a task; ``(all)`` where they are taken together
QLen     mean number of jobs there, waiting, holding a slot or served
Util     mean share that is busy, from 0 to 1 for any number of servers, slots or threads; none where slots change
RespT    mean time of one visit, waiting included [s]
ResidT   mean time of all visits of a request [s]
ArvR     arrivals [1/s]
Tput     departures [1/s]
======== ==================================================================================

What does not apply, the utilisation of a delay say, is NaN. Without pandas the package can be imported; a
function that makes a table then raises ImportError.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal, Union

from . import _native
from ._native import SekishoError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COLUMNS",
    "Model",
    "SekishoError",
    "ask",
    "fit",
    "read_histogram",
    "read_intervals",
    "read_knees",
    "read_probes",
    "read_runs",
    "simulate",
    "solve",
]

#: What a model may be.
Model = Union[str, "os.PathLike[str]", Mapping[str, Any]]

#: The columns of the tables of ``solve`` and ``simulate``.
COLUMNS: tuple[str, ...] = (
    "Station",
    "Class",
    "QLen",
    "Util",
    "RespT",
    "ResidT",
    "ArvR",
    "Tput",
)

_NUMBERS = COLUMNS[2:]


def solve(
    model: Model,
    method: Literal["exact", "linearizer", "aql", "bard-schweitzer"] | None = None,
) -> pd.DataFrame:
    """Solve a model by formula.

    ``method`` solves a network of product form by that algorithm; left out, the formula that fits
    best is taken. ``attrs`` of the table holds ``algorithm``, ``exact``, ``approximate`` (not
    exact), ``error`` (the largest relative error seen where it was tried; None if exact or not
    tried), ``trust`` (the same in words), ``classes`` (throughput and response by class), ``queue``
    (of a scenario with one queue: wait, P(wait), L, Lq and variances; None where not known),
    ``product_bounds`` (of a closed network of one class: asymptotic, balanced-job and geometric
    bounds, and the knee N*), ``caches`` (of each its hit ratio and the hit probability of its first
    hundred keys) and ``notes``.

    Raises SekishoError, a ValueError, if the model is wrong or no formula answers it, with the text
    that ``sekisho solve`` prints.

    >>> table = solve({
    ...     "sekisho": 1,
    ...     "name": "one queue",
    ...     "class": [{"name": "web", "rate": "50/s", "route": ["cpu"]}],
    ...     "station": [{"name": "cpu", "kind": "queue",
    ...                  "demand": {"mean": "10ms", "dist": "exponential"}}],
    ... })
    >>> round(float(table.RespT[0]), 12)
    0.02
    """
    name, text, form = _read(model)
    return _table(_native.solve(name, text, form, method), _NUMBERS)


def simulate(
    model: Model,
    *,
    seed: int | None = None,
    precision: float = 0.02,
    replications: int = 10,
    max_requests: int = 20_000_000,
    threads: int | None = None,
) -> pd.DataFrame:
    """Simulate a model until its mean response times are precise.

    ``precision`` is the relative half-width of the 95 % intervals to stop at, ``max_requests`` the
    budget; ``attrs["precise"]`` says whether it was enough, ``attrs["steady"]`` whether nothing speaks
    against a steady state, and ``attrs["unsettled"]`` what does. The same seed gives the same table on
    any number of threads; left out, it is the scenario's, or 1.

    Beside the columns of ``solve``, the table has ``QLen_hw`` and so on: half the width of each
    interval. Stations of several classes are counted for all classes together. ``attrs`` holds
    ``classes``, with throughput, response and its quantiles, each with its interval. Durations are told
    apart from 1 us to 1 h: a quantile whose ``bound`` is ``"at-least"`` may be any time longer, one of
    ``"at-most"`` any time shorter, and neither has an interval; ``bound`` of all others is None.

    Raises SekishoError, a ValueError, if the model is wrong or has no steady state, with the text
    that ``sekisho sim`` prints.
    """
    name, text, form = _read(model)
    columns = [column for number in _NUMBERS for column in (number, f"{number}_hw")]
    found = _native.simulate(
        name, text, form, seed, precision, replications, max_requests, threads
    )
    return _table(found, [*_NUMBERS, *(c for c in columns if c not in _NUMBERS)])


#: A file.
PathLike = Union[str, "os.PathLike[str]"]


def read_runs(paths: PathLike | Iterable[PathLike]) -> pd.DataFrame:
    """Read records of runs, as ``sekisho measure`` keeps them under ``.sekisho/runs``.

    A row for all requests of a run, whose ``Class`` is ``(all)``, and one for each class. ``Clients`` is the
    load of a closed run, ``Rate`` [1/s] that of an open one. ``X`` is the throughput [1/s], ``R`` the mean
    response [s], ``p50`` to ``p99`` its quantiles; ``X_hw`` and so on are half the width of the 95 % interval,
    NaN where it is not known. ``p99_bound`` and so on say ``at-least`` or ``at-most`` where a quantile is longer or
    shorter than a histogram tells, and are None where it is the quantile itself. ``Valid`` is False, with the reasons
    in ``Faults``, where the measurement, or a phase of a load that varies, cannot be believed.

    Raises SekishoError, a ValueError, if a file is no record.
    """
    numbers = ["Clients", "Rate", "X", "X_hw", "R", "R_hw", "R_max"]
    quantiles = [f"p{p}{end}" for p in (50, 90, 95, 99) for end in ("", "_hw")]
    bounds = [f"p{p}_bound" for p in (50, 90, 95, 99)]
    columns = ["File", "Run", "Target", "Class", "Clients", "Rate", "Completed", "Failed"]
    columns += ["X", "X_hw", "R", "R_hw", *quantiles, *bounds, "R_max", "Valid", "Faults"]
    return _frame(_native.runs(_files(paths)), columns, [*numbers, *quantiles])


def read_knees(paths: PathLike | Iterable[PathLike]) -> pd.DataFrame:
    """Read searches for a knee, as ``sekisho measure ... --knee 'p99<50ms'`` keeps them (``ID.knee.json``).

    A row for each: the ``Limit`` as it was written, its ``Quantile`` and response ``R_limit`` [s]. ``Low`` and ``High`` are
    the highest rate [1/s] at which the limit is believed to hold and the lowest at which it is believed to fail, each
    seen by two probes, at it or beyond it: verdicts rest on these. ``Low_seen`` and ``High_seen`` are the ends that the
    search tells; of one that was not ``Decided``, and says ``Why``, one probe may have seen them. NaN where there is none.
    ``Elapsed`` [s], ``Probes`` and ``Interrupted`` say how it went.

    Raises SekishoError, a ValueError, if a file is no record of a search.
    """
    numbers = ["R_limit", "Low", "High", "Low_seen", "High_seen", "Elapsed"]
    columns = ["File", "Run", "Target", "Limit", "Quantile", "R_limit", "Low", "High"]
    columns += ["Low_seen", "High_seen", "Decided", "Why", "Elapsed", "Probes", "Interrupted"]
    return _frame(_native.knees(_files(paths)), columns, numbers)


def read_probes(path: PathLike) -> pd.DataFrame:
    """Read the probes of one search for a knee, in their order, their warm-up left out.

    ``Rate`` [1/s]; ``Effort``, the length as a multiple of a usual probe's; ``Outcome``: ``holds``, ``fails``, ``straddles``,
    ``too-few`` or ``invalid``. Requests ``Answered`` well, ``Late`` among them, and ``Failed``; ``R`` is the quantile of the
    limit [s], with its 95 % interval from ``R_low`` to ``R_high``. ``attrs`` holds the ``limit``, its ``quantile`` and
    ``limit_s``: ``table.plot.scatter(x="Rate", y="R")`` draws the search.
    """
    (file,) = _files(path)
    numbers = ["Rate", "Answered", "Late", "Failed", "R", "R_low", "R_high"]
    columns = ["Rate", "Effort", "Outcome", "Answered", "Late", "Failed", "R", "R_low", "R_high"]
    return _frame(_native.probes(file), columns, numbers)


def read_intervals(path: PathLike, document: str | None = None) -> pd.DataFrame:
    """Read the intervals of one run, those of the warm-up too (until ``attrs["warmup_s"]``).

    ``Start`` and ``Length`` [s] of each; its throughput ``X`` [1/s], requests ``Completed`` and ``Failed``, mean
    response ``R`` and quantiles [s], and the mean number of requests ``InFlight`` (of all documents).
    ``document`` names one; left out, all count.
    """
    (file,) = _files(path)
    numbers = ["Start", "Length", "X", "R", "p50", "p99", "InFlight"]
    columns = ["Start", "Length", "Completed", "Failed", "X", "R", "p50", "p99", "InFlight"]
    return _frame(_native.intervals(file, document), columns, numbers)


def read_histogram(path: PathLike, document: str | None = None) -> pd.DataFrame:
    """Read the response times of one run, without its warm-up.

    Each time ``R`` [s] that the histogram tells apart, to three digits, with its ``Count``, and the ``Share`` of
    all requests that were answered well within it: ``table.plot(x="R", y="Share")`` draws the distribution. A request
    that failed was answered at no time, so ``Share`` ends below 1 where ``attrs["failed"]`` requests did.
    """
    (file,) = _files(path)
    table = _frame(_native.histogram(file, document), ["R", "Count"], ["R"])
    all_requests = int(table["Count"].sum()) + table.attrs["failed"]
    table["Share"] = table["Count"].cumsum() / max(all_requests, 1)
    return table


def fit(
    paths: PathLike | Iterable[PathLike],
    *,
    cores: int | None = None,
    slots: int | None = None,
    seed: int = 1,
) -> pd.DataFrame:
    """Fit a model to records of runs at several loads, as ``sekisho fit`` does.

    A row for each parameter: ``Value`` and the ends of its 95 % region, ``Low`` and ``High``, in its ``Unit``.
    ``attrs["scenario"]`` is the model, for ``solve``, ``simulate`` and ``ask``. ``attrs`` also holds ``by``
    (``sizes`` of documents or ``loads``), ``rows`` (measured beside fitted), ``notes``, ``unidentified`` (what the
    runs do not tell) and ``left_out`` (runs that do not belong to the others, and why).

    Raises SekishoError, a ValueError, if the runs do not fit or do not suffice.
    """
    date = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = _native.fit(_files(paths), cores, slots, seed, date)
    columns = ["Parameter", "Value", "Low", "High", "Unit"]
    return _frame(found, columns, ["Value", "Low", "High"])


def ask(
    model: Model,
    *,
    clients: Sequence[int] = (),
    rates: Sequence[float] = (),
    slots: Sequence[int] = (),
    document: str | None = None,
    seed: int | None = None,
) -> pd.DataFrame:
    """Ask a model about other loads: numbers of ``clients``, or ``rates`` [1/s], each with each number of ``slots``.

    A row for each: throughput ``X`` [1/s], mean response ``R``, quantiles and mean wait for a slot ``W`` [s] by
    simulation, and ``X_formula`` and ``R_formula`` where a formula knows them; ``Error`` is the largest relative error
    of that formula where it was tried. ``p99_bound`` and so on say ``at-least`` or ``at-most`` where a quantile is a bound
    only. ``Beyond`` says how a load lies beyond what the model was fitted to.
    ``document`` is the class whose loads these are; left out, the only one.
    """
    name, text, form = _read(model)
    found = _native.ask(
        name, text, form, list(clients), list(rates), list(slots), document, seed
    )
    numbers = ["Clients", "Rate", "Slots", "X", "X_hw", "R", "R_hw", "p50", "p90", "p99", "W"]
    numbers += ["X_formula", "R_formula", "Error"]
    bounds = ["p50_bound", "p90_bound", "p99_bound"]
    return _frame(found, [*numbers, *bounds, "Beyond"], numbers)


def _files(paths: PathLike | Iterable[PathLike]) -> list[tuple[str, str]]:
    """The names and texts of files."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    files = []
    for path in map(os.fspath, paths):
        with open(path, encoding="utf-8") as file:
            files.append((path, file.read()))
    return files


def _pandas() -> Any:
    """Pandas, or what is missing."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "sekisho makes its tables with pandas, which is not installed: pip install 'pandas>=2'"
        ) from error
    return pandas


def _frame(found: str, columns: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    """An answer as a table of these columns."""
    pandas = _pandas()
    answer = json.loads(found)
    table = pandas.DataFrame(answer["rows"], columns=list(columns))
    # A column of nothing but missing numbers is still one of numbers.
    table = table.astype({number: "float64" for number in numbers})
    table.attrs.update(answer["attrs"])
    return table


def _read(model: Model) -> tuple[str, str, str]:
    """The name, the text and the form of a model."""
    if isinstance(model, Mapping):
        return "scenario", json.dumps(model), "json"
    if isinstance(model, str) and "\n" in model:
        return "scenario", model, "file"
    path = os.fspath(model)
    with open(path, encoding="utf-8") as file:
        return path, file.read(), "file"


def _table(found: str, numbers: Sequence[str]) -> pd.DataFrame:
    """An answer about stations as a table."""
    return _frame(found, ["Station", "Class", *numbers], numbers)
