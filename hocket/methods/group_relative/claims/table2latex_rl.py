"""Table2LaTeX-RL's claims."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np

from hocket.core.keys import Key
from hocket.core.media import MEDIA, pictures_in
from hocket.core.pictures import open_picture
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.pictured_runs import PicturedRun
from hocket.lab.toys.recorded_answers import advantages, answer, group_relative, lines
from hocket.lab.toys.warmed_runs import taught
from hocket.methods.base.grpo import GRPO_KL
from hocket.methods.group_relative.table2latex_rl.method import (
    TABLE2LATEX_RL,
    PrintReward,
    Structure,
    TableReward,
    appearance,
    bands,
    cw_ssim,
    teds_structure,
)
from hocket.methods.group_relative.table2latex_rl.tabular import Cell, Table, code_of, printed, table_in
from hocket.methods.group_relative.table2latex_rl.task import Tables, drawn
from hocket.stages import Split
from hocket.tasks.digits import handwriting
from hocket.tasks.handwriting import SIDE

claim = Claims("table2latex-rl", "arXiv:2509.17589")

Tree = tuple[str, tuple["Tree", ...]]
Forest = tuple[Tree, ...]


def size(forest: Forest) -> int:
    return sum(1 + size(children) for _, children in forest)


@cache
def distance(left: Forest, right: Forest) -> int:
    """The fewest edits between two ordered forests, by the recursion over their last trees."""
    if not left or not right:
        return size(left) + size(right)
    (name, children), (named, theirs) = left[-1], right[-1]
    return min(
        distance(left[:-1] + children, right) + 1,
        distance(left, right[:-1] + theirs) + 1,
        distance(left[:-1], right[:-1]) + distance(children, theirs) + int(name != named),
    )


def forest(table: Structure) -> Forest:
    return tuple(("row", tuple((f"cell {columns}", ()) for columns in row)) for row in table)


@claim("TEDS-Structure is 1 minus the edit distance over the larger number of nodes, by a recursion of our own.")
def teds_structure_is_that_of_a_recursion() -> Finding:
    rng, off, alike = Key.of(0).numpy(), 0.0, 0
    for _ in range(80):
        pair: list[Structure] = [
            tuple(tuple(rng.integers(1, 4, rng.integers(1, 4)).tolist()) for _ in range(rng.integers(1, 4)))
            for _ in range(2)
        ]
        left, right = map(forest, pair)
        off = max(off, abs(teds_structure(*pair) - (1 - distance(left, right) / max(size(left), size(right)))))
        off = max(off, abs(teds_structure(*pair) - teds_structure(*pair[::-1])))
        alike += (teds_structure(*pair) == 1.0) != (pair[0] == pair[1])
    return Finding(off < EXACT and not alike, say(off=off))


@claim("It ignores texts, and falls by one unit for each cell that is left out.")
def it_ignores_texts_and_falls_by_one_unit_a_cell() -> Finding:
    full = tuple(tuple(Cell(str(3 * row + column)) for column in range(3)) for row in range(3))
    right = tuple(tuple(Cell("x") for _ in row) for row in full)
    same = teds_structure(Table(3, full).structure, Table(3, right).structure)
    nodes, off = 12, 0.0
    for gone in range(4):
        rows = [list(row) for row in Table(3, full).structure]
        for number in range(gone):
            rows[number % 3].pop()
        off = max(off, abs(teds_structure(tuple(map(tuple, rows)), Table(3, full).structure) - (1 - gone / nodes)))
    return Finding(same == 1.0 and off < EXACT, say(off=off))


def by_hand(left: Sequence[Sequence[float]], right: Sequence[Sequence[float]]) -> float:
    """The wavelet similarity by loops over numbers, of pictures with even sides."""

    def coefficients(picture: Sequence[Sequence[float]]) -> list[list[float]]:
        made: list[list[float]] = [[], [], [], []]
        for top in range(0, len(picture), 2):
            for left in range(0, len(picture[0]), 2):
                a, b = picture[top][left], picture[top][left + 1]
                c, d = picture[top + 1][left], picture[top + 1][left + 1]
                for band, value in zip(made, ((a + b + c + d) / 4, (a - c) / 2, (a - b) / 2, (a - d) / 2), strict=True):
                    band.append(value)
        return made

    scores = []
    for x, y in zip(coefficients(left), coefficients(right), strict=True):
        n, mx, my = len(x), math.fsum(x) / len(x), math.fsum(y) / len(y)
        vx, vy = (math.fsum((v - m) ** 2 for v in values) / n for values, m in ((x, mx), (y, my)))
        if math.sqrt(vx) < 1e-6 and math.sqrt(vy) < 1e-6:
            scores.append(float(mx == my))
            continue
        cov = math.fsum((v - mx) * (w - my) for v, w in zip(x, y, strict=True)) / (n - 1)
        value = (2 * mx * my + 6.5025) * (2 * cov + 58.5225) / ((mx**2 + my**2 + 6.5025) * (vx + vy + 58.5225))
        scores.append(min(1.0, max(0.0, value)))
    return math.fsum(scores) / 4


@claim("CW-SSIM is that of loops over single numbers, on prints, on noise and on constant pictures; 1 for equal ones.")
def cw_ssim_is_that_of_loops_over_numbers() -> Finding:
    rng, off = Key.of(1).numpy(), 0.0
    pictures = [rng.integers(0, 256, (16, 16)).astype(np.uint8) for _ in range(6)]
    pictures += [printed(drawn(rng)) for _ in range(8)] + [np.full((16, 16), grey, np.uint8) for grey in (0, 255)]
    for left in pictures:
        for right in pictures:
            off = max(off, abs(cw_ssim(left, right) - by_hand(left.tolist(), right.tolist())))
    equal = [cw_ssim(left, left) for left in pictures]
    odd = [band.shape for band in bands(np.zeros((5, 7)))] == [(2, 3)] * 4
    return Finding(off < 1e-9 and equal == [1.0] * len(pictures) and odd, say(off=off))


RIGHT = code_of(Table(2, ((Cell("3"), Cell("7")), (Cell("4", 2, "l"),))))
CASES = {
    RIGHT: (1.0, 1.0),
    RIGHT.replace("{cc}", "{|l|r|}").replace("&", " &\n "): (1.0, 1.0),
    f"<think>3 7 4 .</think> {RIGHT} {RIGHT[:9]}": (1.0, 1.0),
    RIGHT.replace(r"\multicolumn{2}{l}{4}", "4&"): (0.0, 1.0),
    RIGHT.replace(r"\multicolumn{2}{l}{4}", "4"): (0.0, 1.0),
    RIGHT.replace("3", "1").replace("7", "0").replace("4", "7"): (1.0, 0.0),
    RIGHT.replace(r"\end{tabular}", ""): (0.0, 0.0),
    RIGHT.replace("7", "7&7"): (0.0, 0.0),
    RIGHT.replace("7", r"\hbox{7}"): (0.0, 0.0),
    RIGHT.replace("multicolumn", "multirow"): (0.0, 0.0),
    RIGHT.replace("{cc}", "{}"): (0.0, 0.0),
    r"\begin{tabular}{cc}\end{tabular}": (0.0, 0.0),
    "": (0.0, 0.0),
}
"""Answers to one table, with what they earn for structure and for their print."""


@claim("Each reward is 1 or 0, by what must be exceeded; what does not compile, or is empty, earns neither, by hand.")
def each_reward_is_1_or_0_and_what_does_not_compile_earns_neither() -> Finding:
    structure, visual = TABLE2LATEX_RL.rewards
    assert isinstance(structure, TableReward)
    assert isinstance(visual, PrintReward)
    result = {text: (structure.grade(text, RIGHT), visual.grade(text, RIGHT)) for text in CASES}
    reference = table_in(RIGHT)
    assert reference is not None
    wrong = reference._replace(rows=((Cell("3"), Cell("1")), reference.rows[1]))
    near = appearance(wrong, reference)
    edge = [PrintReward(above=above).grade(code_of(wrong), RIGHT) for above in (near, near - 1e-9)]
    silent = structure.grade(RIGHT, None) is None and visual.grade(RIGHT, "a word") is None
    shipped = (structure.above, structure.weight, visual.above, visual.weight) == (0.9, 1.0, 0.6, 1.0)
    holds = result == CASES and edge == [0.0, 1.0] and silent and shipped
    return Finding(holds, say(wrong=str([text for text in CASES if result[text] != CASES[text]]), near=near))


@claim("Advantages are z-scores of the sum of both, with a KL of 0.04.")
def advantages_are_z_scores_of_the_sum_of_both() -> Finding:
    pairs = [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.0, 0.0)]
    parts = [dict(zip(("structure", "visual"), pair, strict=True)) for pair in pairs]
    rows = [{**answer(0.0, 2, logp_ref=[-1.0, -1.0]), "scores": scores} for scores in parts]
    off = gap(advantages(TABLE2LATEX_RL, rows), group_relative([sum(pair) for pair in pairs]))
    (penalty,) = TABLE2LATEX_RL.regularisers
    return Finding(off < EXACT and penalty.coefficient == 0.04, say(off=off))  # type: ignore[attr-defined]


def row_of(marks: Sequence[str]) -> str:
    """The code of a row by what stands in its two quarters, `""` for nothing."""
    place = "l" if marks[0] else "r"
    return "&".join(marks) if all(marks) else rf"\multicolumn{{2}}{{{place}}}{{{''.join(marks)}}}"


@claim("A picture shows the table in handwriting of its split; its code is read back; the splits share no table.")
def a_picture_shows_the_table_in_handwriting() -> Finding:
    task, codes = Tables(), dict[str, set[str]]()
    for split in get_args(Split):
        pixels, labels = handwriting(split)
        known = {left.tobytes(): str(label) for left, label in zip(pixels, labels, strict=True)}
        for number in range(60):
            scenario = task.scenario(split, number)
            shown = np.asarray(open_picture(MEDIA.data(pictures_in(scenario.messages)[0]), "table").convert("L"))
            quarters = [shown[row : row + SIDE, left : left + SIDE] for row in (0, SIDE) for left in (0, SIDE)]
            marks = [known.get(part.tobytes(), "" if not part.any() else "?") for part in quarters]
            rows = [marks[:2], marks[2:]] if any(marks[2:]) else [marks[:2]]
            code = "".join((r"\begin{tabular}{cc}", r"\\".join(map(row_of, rows)), r"\end{tabular}"))
            codes.setdefault(split, set()).add(code)
            table = table_in(code)
            if code != scenario.answer or table is None or code_of(table) != code or task.verify(code, scenario) != 1:
                return Finding(False, say(code=code, answer=str(scenario.answer)))
            if any(task.verify(wrong, scenario) for wrong in ("", code.replace("tabular", "table"), code[:-1])):
                return Finding(False, say(code=code))
    return Finding(not codes["train"] & codes["eval"], say(tables=len(codes["train"] | codes["eval"])))


def measured(run: PicturedRun) -> list[float]:
    """The shares of right greedy and of right sampled answers to 100 unseen pictures."""
    return [run.measured(100).success, run.measured(100, temperature=1.0).success]


@claim(
    "After 200 lessons 10 steps as shipped write over 30 points more of 100 unseen tables right, greedy, and over 10 "
    "sampled; blind hardly any is right. GRPO on the verdict alone ends less than 10 points above.",
    slow=True,
    learns=True,
)
def after_lessons_ten_steps_write_more_tables_right() -> Finding:
    steps, right = 10, dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as folder:
        model = taught("tables", 200, Path(folder), **{"curriculum.prompts": 32})
        run = PicturedRun.of(TABLE2LATEX_RL, "tables", model=model)
        right["lessons"] = measured(run)
        right["both"] = measured(run.train(steps))
        blind = run.blind(100).success
        right["verdict"] = measured(PicturedRun.of(GRPO_KL, "tables", model=model).train(steps))
    gains = [after - before for before, after in zip(right["lessons"], right["both"], strict=True)]
    holds = gains[0] > 0.3 and gains[1] > 0.1 and blind < 0.1
    holds &= all(after > other - 0.1 for after, other in zip(right["both"], right["verdict"], strict=True))
    return Finding(holds, lines(greedy_and_sampled=right, blind=blind))


claim.shipped(
    TABLE2LATEX_RL,
    "rewards",
    settings={"model": "nano-vlm"},
    first={
        "recipe": "sft",
        "steps": 100,
        "task": "lessons:tables",
        "curriculum.prompts": 32,
        "update.lr": 1e-3,
        "model": "nano-vlm",
    },
)
