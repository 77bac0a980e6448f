"""Every notebook runs from its first cell to its last, and still shows what is stored in it."""

from __future__ import annotations

import re
from pathlib import Path

import notebook
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def test_there_is_a_notebook():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_shows_what_is_stored(path):
    found, stored = notebook.run(path), notebook.stored(path)
    assert len(found) == len(stored)
    assert any(stored), "nothing is stored in it; run tests/notebook.py with its path"
    for index, (now, then) in enumerate(zip(found, stored)):
        place = f"{path.name}, code cell {index + 1}:\n{now}\nstored:\n{then}"
        # Bars and blanks of a figure are drawn from the numbers beside them.
        words = [re.sub(r"[#.\s|+-]+", " ", NUMBER.sub("", text)) for text in (now, then)]
        assert words[0] == words[1], place
        numbers = [[float(text) for text in NUMBER.findall(text)] for text in (now, then)]
        assert len(numbers[0]) == len(numbers[1]), place
        # Simulated with fixed seeds, to 1 %: another machine may round otherwise, and no more.
        assert numbers[0] == pytest.approx(numbers[1], rel=0.03, abs=0.06), place
