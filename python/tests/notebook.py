"""Runs a notebook without Jupyter: its code cells in order, in one namespace.

``python tests/notebook.py notebooks/NAME.ipynb`` runs it and stores what it prints and draws.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

# Figures are drawn where there is no display.
os.environ.setdefault("MPLBACKEND", "agg")


class Shown(NamedTuple):
    """Output of a code cell: what it prints, with the value of its last expression, and its figures (PNG)."""

    text: str
    figures: list[bytes]


def run(path: Path) -> list[Shown]:
    """Output of each code cell, as a notebook shows it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    namespace: dict[str, object] = {"__name__": "__main__"}
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        return [
            _cell("".join(cell["source"]), f"{path.name}, cell {index + 1}", namespace)
            for index, cell in enumerate(cells)
            if cell["cell_type"] == "code"
        ]
    finally:
        os.chdir(before)


def _cell(source: str, name: str, namespace: dict[str, object]) -> Shown:
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(tree, name, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
            if value is not None:
                print(value)
    return Shown(out.getvalue(), _figures())


def _figures() -> list[bytes]:
    """The figures that were drawn since the last cell."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    found = []
    for number in pyplot.get_fignums() if pyplot else []:
        image = io.BytesIO()
        # Nothing that differs from run to run.
        metadata = {"Software": None}
        pyplot.figure(number).savefig(image, format="png", dpi=80, metadata=metadata)
        pyplot.close(number)
        found.append(image.getvalue())
    return found


def stored(path: Path) -> list[Shown]:
    """The outputs that are stored in it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        Shown(
            "".join("".join(output.get("text", "")) for output in cell["outputs"]),
            [
                base64.b64decode(output["data"]["image/png"])
                for output in cell["outputs"]
                if "data" in output
            ],
        )
        for cell in cells
        if cell["cell_type"] == "code"
    ]


def store(path: Path) -> None:
    """Runs it and stores its outputs."""
    outputs = run(path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    for count, (cell, shown) in enumerate(zip(code, outputs, strict=True), start=1):
        cell["execution_count"] = count
        lines = shown.text.splitlines(keepends=True)
        printed = {"name": "stdout", "output_type": "stream", "text": lines}
        cell["outputs"] = [printed] if lines else []
        cell["outputs"] += [
            {
                "data": {"image/png": base64.b64encode(figure).decode() + "\n"},
                "metadata": {},
                "output_type": "display_data",
            }
            for figure in shown.figures
        ]
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        store(Path(argument).resolve())
