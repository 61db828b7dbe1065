"""The notebooks are executed again, and say what they said. ``WATTIF_NOTEBOOKS=write`` writes what they say today."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"


def said(notebook):
    """What a reader sees, as text, cell by cell."""

    def text(output):
        plain = output.get("data", {}).get("text/plain")
        return output.get("text", "") if plain is None else plain

    return [[text(o) for o in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda p: p.stem)
def test_says_what_it_said(path, tmp_path):
    before = nbformat.read(path, as_version=4)
    again = nbformat.read(path, as_version=4)
    client = NotebookClient(again, timeout=300, record_timing=False, resources={"metadata": {"path": tmp_path}})
    client.execute()
    for cell in again.cells:
        if cell.cell_type == "code":  # warnings name folders of the machine
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    if os.environ.get("WATTIF_NOTEBOOKS") == "write":
        nbformat.write(again, path)
        before = again
    assert said(again) == said(before)


def test_there_are_three():
    assert len(list(FOLDER.glob("*.ipynb"))) == 3
