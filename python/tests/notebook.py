"""Runs a notebook without Jupyter: its code cells in order, in one namespace.

``python tests/notebook.py notebooks/NAME.ipynb`` runs it and stores what it prints.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
from pathlib import Path


def run(path: Path) -> list[str]:
    """What each code cell prints, and the value of its last expression, as a notebook shows them."""
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


def _cell(source: str, name: str, namespace: dict[str, object]) -> str:
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(tree, name, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
            if value is not None:
                print(value)
    return out.getvalue()


def stored(path: Path) -> list[str]:
    """The outputs that are stored in it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        "".join("".join(output["text"]) for output in cell["outputs"])
        for cell in cells
        if cell["cell_type"] == "code"
    ]


def store(path: Path) -> None:
    """Runs it and stores its outputs."""
    outputs = run(path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    for count, (cell, text) in enumerate(zip(code, outputs, strict=True), start=1):
        cell["execution_count"] = count
        lines = text.splitlines(keepends=True)
        cell["outputs"] = (
            [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
        )
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        store(Path(argument).resolve())
