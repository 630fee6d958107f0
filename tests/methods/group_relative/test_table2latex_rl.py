"""Tables as code and as pictures, and the rewards of Table2LaTeX-RL."""

from __future__ import annotations

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.group_relative.table2latex_rl.method import TABLE2LATEX_RL, PrintReward, TableReward, cw_ssim
from hocket.methods.group_relative.table2latex_rl.tabular import Cell, Table, code_of, printed, table_in
from hocket.methods.group_relative.table2latex_rl.task import READ, Tables, drawn, hurried, read_first
from hocket.tasks import find
from hocket.tasks.handwriting import SIDE

WIDE = Table(3, ((Cell("1", 2, "c"), Cell("2")), (Cell("3"), Cell("4"), Cell("5"))))


def test_code_is_read_back() -> None:
    rng = Key.of(0).numpy()
    for table in (WIDE, *(drawn(rng) for _ in range(50))):
        assert table_in(f"words {code_of(table)} and {code_of(WIDE)}") == table
    assert WIDE.structure == ((2, 1), (1, 1, 1))


def test_short_rows_are_filled_and_blank_lines_left_out() -> None:
    table = table_in("\\begin{tabular}{c|c}\n1 \\\\\n 2 & 3 \\\\ \n\\end{tabular}")
    assert table == Table(2, ((Cell("1"), Cell("")), (Cell("2"), Cell("3"))))


@pytest.mark.parametrize(
    "code",
    [
        "",
        "1&2",
        r"\begin{tabular}{cc}\end{tabular}",
        r"\begin{tabular}{}1\end{tabular}",
        r"\begin{tabular}{||}1\end{tabular}",
        r"\begin{tabular}{cp}1\end{tabular}",
        r"\begin{tabular}{c}1&2\end{tabular}",
        r"\begin{tabular}{cc}\multicolumn{3}{c}{1}\end{tabular}",
        r"\begin{tabular}{cc}\multicolumn{2}{c}{1} 2\end{tabular}",
        r"\begin{tabular}{cc}\multicolumn{2}{c}{\x}\end{tabular}",
        r"\begin{tabular}{cc}1_2&3\end{tabular}",
        r"\begin{tabular}{cc}1&2",
    ],
)
def test_what_does_not_compile_earns_nothing(code: str) -> None:
    assert table_in(code) is None
    right = code_of(WIDE)
    assert TableReward().grade(code, right) == PrintReward().grade(code, right) == 0.0
    assert Tables().verify(code, Tables().scenario("eval", 0)) == 0.0


def test_print_puts_texts_in_their_places() -> None:
    page = printed(WIDE)
    assert page.shape == (2 * SIDE, 3 * SIDE)
    middle = SIDE // 2
    assert (page[:SIDE, :middle] == 255).all()
    assert (page[:SIDE, 3 * middle : 2 * SIDE] == 255).all()
    lone = printed(Table(1, ((Cell("1"),),)))
    assert lone.shape == (2 * SIDE, 2 * SIDE)
    assert (page[:SIDE, middle : 3 * middle] == lone[:SIDE, :SIDE]).all()
    assert not (printed(Table(1, ((Cell("x"),),))) == lone).all()
    assert printed(Table(1, ((Cell("1234567890"),),))).shape == lone.shape


def test_pictures_of_other_sizes_are_resized() -> None:
    rng = np.random.default_rng(0)
    one, other = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((16, 16), (24, 16)))
    assert 0.0 <= cw_ssim(one, other) < 0.9
    assert cw_ssim(other, other) == 1.0


def test_the_task_and_what_a_beginner_writes() -> None:
    task = find("tables")
    assert isinstance(task, Tables)
    assert TABLE2LATEX_RL.task == task.name
    texts = []
    for number in range(60):
        scenario = task.scenario("train", number)
        assert scenario == task.scenario("train", number)
        (lesson,) = task.lessons.play(scenario, Key.of(number).numpy())
        texts.append(str(lesson.said[0]["content"]))
        table = table_in(str(scenario.answer))
        assert table is not None
        assert task.verify(read_first(table), scenario) == 1.0
        spans = any(len(row) == 1 for row in table.rows)
        assert task.verify(code_of(hurried(table)), scenario) == float(not spans)
        assert texts[-1] in (read_first(table), code_of(hurried(table)))
    assert abs(sum(text.startswith("<think>") for text in texts) / 60 - READ) < 0.2
    with pytest.raises(ConfigurationError, match="tables"):
        find("tables?rows=3")
