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
    """The rows of every table in the paper's source, as plain text."""
    sources = sorted((real_data.parent / "paper").glob("*.tex"))
    if not sources:
        pytest.skip("the paper's source is absent: it is looked for in paper/ beside the data")
    text = sources[0].read_text(encoding="utf-8")
    rows = []
    for body in re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        plain = re.sub(r"\\(hline|bf|emph|textbf)\b|\$\^[^$]*\$|[{}$]", "", body)
        for line in plain.split("\\\\"):
            row = [cell.strip().replace("\\pm", "±") for cell in line.split("&")]
            rows.append(row)
    return rows


def as_printed(pair: paper.Score | None) -> list[str]:
    """EM and F1 as the paper prints them."""
    if pair is None:
        return ["-", "-"]
    exact, overlap = pair
    return [f"{exact:.1f}", f"{overlap:.1f}"]


@pytest.mark.data
def test_tables_2_and_3_are_as_printed(cells: list[list[str]]) -> None:
    table_2 = (
        *paper.SINGLE,
        *paper.ENSEMBLE,
        *paper.HUMAN,
    )
    assert len(table_2) == 20
    assert len(paper.TABLE_3) == 7
    for model, first, second in (*table_2, *paper.TABLE_3):
        expected = [
            *as_printed(first),
            *as_printed(second),
        ]
        name = model.rstrip("*+")
        printed = [row[1:] for row in cells if row[0].startswith(name)]
        assert expected in printed, model


@pytest.mark.data
def test_table_4_is_as_printed_with_its_differences(cells: list[list[str]]) -> None:
    for row in paper.TABLE_4[1:]:
        name = row.name.replace("−", "-")
        (printed,) = (cell for cell in cells if cell[0] == f"({row.number}) {name}")
        exact, overlap, exact_gain, overlap_gain = map(float, printed[1:5])
        assert list(row.score) == [exact, overlap]
        first_exact, first_overlap = paper.TABLE_4[0].score
        assert exact_gain == pytest.approx(exact - first_exact)
        assert overlap_gain == pytest.approx(overlap - first_overlap)


@pytest.mark.data
def test_tables_1_and_5_are_as_printed(cells: list[list[str]]) -> None:
    for model, interactive, self_aligning, attention in paper.TABLE_1:
        printed = next(cell for cell in cells if cell[0].startswith(model))
        expected = [
            str(interactive),
            str(self_aligning or "-"),
            attention,
        ]
        assert printed[1:] == expected

    printed = [row[1:] for row in cells if len(row) == 3 and "±" in row[1]]
    ours = []
    for without, with_ in paper.TABLE_5.values():
        row = [f"{mean:.3f} ± {deviation:.3f}" for mean, deviation in (without, with_)]
        ours.append(row)
    assert printed == ours


def test_what_a_second_stage_gave_the_paper() -> None:
    assert paper.gain(0, 2) == (0.7, 0.9)
    assert paper.gain(4, 2) == (0.3, 0.4)


def test_every_ablation_is_a_setting_and_no_two_are_the_same() -> None:
    default = recipe_from({})
    trainings = set()
    for row in paper.TABLE_4:
        changed = recipe_from({}, row.network.split())
        is_changed = changed != default
        assert is_changed == bool(row.network)
        trainings.add((row.network, row.second))
    assert len(trainings) == len(paper.TABLE_4) == 13


def test_table_1_is_trained_in_the_networks_it_names() -> None:
    printed = {(interactive, own) for _, interactive, own, _ in paper.TABLE_1}
    for row in paper.ROUNDS:
        recipe = recipe_from({}, [*row.network.split(), "network.hidden=4"])
        aligner = Aligner(recipe.network)
        blocks = [block for block in aligner.blocks if isinstance(block, AligningBlock)]
        assert row.name.startswith(f"{len(blocks)} round")
        # The paper counts rounds of interactive and of self alignment.
        interactive = sum(hasattr(block, "fusion_H") for block in blocks)
        own = sum(hasattr(block, "fusion_Z") for block in blocks)
        assert row.name.endswith(f"{interactive} + {own}")
        assert (interactive, own) in printed or row.name == "1 round, self only: 0 + 1"
        has_memory = any(block.reattention for block in blocks)
        assert has_memory == ("with memory" in row.name)
    assert len({row.slug for row in paper.ROUNDS}) == len(paper.ROUNDS) == 6
