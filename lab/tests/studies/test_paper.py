"""The figures printed beside ours are the paper's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.studies import paper
from rmreader.core.recipe import recipe_from
from rmreader.model.aligner import Aligner, AligningBlock


@pytest.fixture(scope="module")
def cells(real_data: Path) -> list[list[str]]:
    """The rows of every table in the paper's source."""
    sources = sorted((real_data.parent / "paper").glob("*.tex"))
    if not sources:
        pytest.skip("the paper's source is absent: it is looked for in paper/ beside the data")
    text = sources[0].read_text(encoding="utf-8")
    found = []
    for body in re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        for line in re.sub(r"\\(hline|bf|emph|textbf)\b|\$\^[^$]*\$|[{}$]", "", body).split("\\\\"):
            found.append([cell.strip().replace("\\pm", "±") for cell in line.split("&")])
    return found


@pytest.mark.data
def test_tables_2_and_3_are_as_printed(cells: list[list[str]]) -> None:
    for rows, count in (((*paper.SINGLE, *paper.ENSEMBLE, *paper.HUMAN), 20), (paper.TABLE_3, 7)):
        assert len(rows) == count
        for model, *scores in rows:
            pairs = [["-", "-"] if pair is None else [f"{x:.1f}" for x in pair] for pair in scores]
            assert any(
                cell[0].startswith(model.rstrip("*+")) and cell[1:] == [*pairs[0], *pairs[1]]
                for cell in cells
            ), model


@pytest.mark.data
def test_table_4_is_as_printed_with_its_differences(cells: list[list[str]]) -> None:
    for row in paper.TABLE_4[1:]:
        name = row.name.replace("−", "-")
        printed = next(cell for cell in cells if cell[0] == f"({row.number}) {name}")
        assert [float(cell) for cell in printed[1:3]] == list(row.score)
        ours = [row.score[k] - paper.TABLE_4[0].score[k] for k in (0, 1)]
        assert [float(cell) for cell in printed[3:5]] == pytest.approx(ours)


@pytest.mark.data
def test_tables_1_and_5_are_as_printed(cells: list[list[str]]) -> None:
    for model, interactive, self_aligning, attention in paper.TABLE_1:
        printed = next(cell for cell in cells if cell[0].startswith(model))
        assert printed[1:] == [str(interactive), str(self_aligning or "-"), attention]
    printed = [
        [cell.split(" ± ") for cell in row[1:]] for row in cells if len(row) == 3 and "±" in row[1]
    ]
    ours = [[[f"{m:.3f}", f"{d:.3f}"] for m, d in pair] for pair in paper.TABLE_5.values()]
    assert [[[x.strip() for x in pair] for pair in row] for row in printed] == ours


def test_what_a_second_stage_gave_the_paper() -> None:
    assert paper.gain(0, 2) == (0.7, 0.9)
    assert paper.gain(4, 2) == (0.3, 0.4)


def test_every_ablation_is_a_setting_and_no_two_are_the_same() -> None:
    default = recipe_from({})
    for row in paper.TABLE_4:
        changed = recipe_from({}, [row.network] if row.network else [])
        assert (changed == default) == (not row.network)
    assert len({(row.network, row.second) for row in paper.TABLE_4}) == len(paper.TABLE_4) == 13


def test_table_1_is_trained_in_the_networks_it_names() -> None:
    printed = {(interactive, own) for _, interactive, own, _ in paper.TABLE_1}
    for row in paper.ROUNDS:
        aligner = Aligner(recipe_from({}, [*row.network.split(), "network.hidden=4"]).network)
        blocks = [block for block in aligner.blocks if isinstance(block, AligningBlock)]
        assert row.name.startswith(f"{len(blocks)} round")
        counts = [
            sum(hasattr(block, part) for block in blocks) for part in ("fusion_H", "fusion_Z")
        ]
        assert row.name.endswith(
            f"{counts[0]} + {counts[1]}"
        )  # as the paper counts interactive and self alignment
        assert tuple(counts) in printed or row.name == "1 round, self only: 0 + 1"
        assert any(block.reattention for block in blocks) == ("with memory" in row.name)
    assert len({row.slug for row in paper.ROUNDS}) == len(paper.ROUNDS) == 6
