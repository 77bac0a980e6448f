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
    assert any(shown.text for shown in stored), "nothing is stored in it; run tests/notebook.py with its path"
    assert any(shown.figures for shown in stored), "no figure is stored in it; the same"
    for index, (seen, kept) in enumerate(zip(found, stored)):
        # Fonts and the library's version move pixels; that there is a figure, and of what size, they do not.
        sizes = [[figure[16:24] for figure in shown.figures] for shown in (seen, kept)]
        assert sizes[0] == sizes[1], f"{path.name}, code cell {index + 1}: figures"
        now, then = seen.text, kept.text
        place = f"{path.name}, code cell {index + 1}:\n{now}\nstored:\n{then}"
        # Bars and blanks of a figure are drawn from the numbers beside them.
        words = [re.sub(r"[#.\s|+-]+", " ", NUMBER.sub("", text)) for text in (now, then)]
        assert words[0] == words[1], place
        numbers = [[float(text) for text in NUMBER.findall(text)] for text in (now, then)]
        assert len(numbers[0]) == len(numbers[1]), place
        # Simulated with fixed seeds: another machine may round the last digit that is shown otherwise, and no more.
        for one, other in zip(NUMBER.findall(now), NUMBER.findall(then)):
            places = len(other.partition(".")[2])
            assert float(one) == pytest.approx(float(other), rel=0.01, abs=1.5 * 10**-places), place
