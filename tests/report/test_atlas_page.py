"""The table of the atlas in a browser."""

from __future__ import annotations

from pathlib import Path

from browser_cases import browse, browser, logged

from hocket.apps.studies import atlas_page
from hocket.lab.claims.atlas import AtlasRun, CurvePoint, code_of, keep

FINALS = {"grpo": 0.5, "dr-grpo": 0.8, "gspo": 0.1}


def stored(file: Path) -> list[atlas_page.AtlasRow]:
    """Three recipes on one task, of which one learnt nothing."""
    for name, final in FINALS.items():
        curve = (CurvePoint(0, 0, 0, 0.0, 0.1), CurvePoint(4, 512, 0, 4.0, final))
        figures = {"before": (0.1, 0.06, 0.14), "final": (final, final - 0.05, final + 0.05)}
        keep(file, AtlasRun(name, "sums", 0, 4, name, code=code_of(name), curve=curve, answers=512, **figures))
    return atlas_page.collected(FINALS, file)


@browser
def test_the_table_sorts_and_filters(tmp_path: Path) -> None:
    (tmp_path / "atlas.html").write_text(atlas_page.page(stored(tmp_path / "atlas.jsonl")))
    script = """
      const shown = () => [...document.querySelectorAll("#atlas tbody tr")].filter((row) => !row.hidden)
        .map((row) => row.cells[0].textContent);
      const heading = (name) => [...document.querySelectorAll("th .sort")].find((one) => one.textContent === name);
      heading("recipe").click();
      log.push(shown());
      heading("final").click();
      heading("final").click();
      log.push(shown());
      const form = document.getElementById("filters");
      form.elements.outcome.value = "learns";
      form.dispatchEvent(new Event("input"));
      log.push(shown(), document.getElementById("shown").textContent);
      form.elements.words.value = "dr-";
      form.dispatchEvent(new Event("input"));
      log.push(shown());
    """
    assert logged(browse(tmp_path / "atlas.html", tmp_path, script)) == [
        ["dr-grpo", "grpo", "gspo"],
        ["gspo", "grpo", "dr-grpo"],
        ["grpo", "dr-grpo"],
        "2 of 3",
        ["dr-grpo"],
    ]
