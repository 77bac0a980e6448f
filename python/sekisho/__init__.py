"""Queueing models, solved by formula and by simulation, as pandas tables.

A model is a scenario (a dictionary, TOML text or the path of a file), or the path of a file of
another tool: ``.jmva``, ``.lqn`` or ``.lqnx``. Both functions give a table with the columns

======== ==================================================================================
Station  a gate or station; of a layered model, a task or processor
Class    the class of jobs, or the entry of a task; ``(all)`` where they are taken together
QLen     mean number of jobs there, waiting, holding a slot or served
Util     mean share that is busy, from 0 to 1 for any number of servers, slots or threads
RespT    mean time of one visit, waiting included [s]
ResidT   mean time of all visits of a request [s]
ArvR     arrivals [1/s]
Tput     departures [1/s]
======== ==================================================================================

What does not apply, the utilisation of a delay say, is NaN.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Literal, Union

import pandas as pd

from . import _native
from ._native import SekishoError

__all__ = ["COLUMNS", "Model", "SekishoError", "simulate", "solve"]

#: What a model may be.
Model = Union[str, "os.PathLike[str]", Mapping[str, Any]]

#: The columns of every table.
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


def _read(model: Model) -> tuple[str, str, str]:
    """The name, the text and the form of a model."""
    if isinstance(model, Mapping):
        return "scenario", json.dumps(model), "json"
    if isinstance(model, str) and "\n" in model:
        return "scenario", model, "file"
    path = os.fspath(model)
    with open(path, encoding="utf-8") as file:
        return path, file.read(), "file"


def _table(found: str, numbers: Any) -> pd.DataFrame:
    """An answer as a table."""
    answer = json.loads(found)
    table = pd.DataFrame(answer["rows"], columns=["Station", "Class", *numbers])
    # A column of nothing but missing numbers is still one of numbers.
    table = table.astype({number: "float64" for number in numbers})
    table.attrs.update(answer["attrs"])
    return table
