"""The agent of docs/serving.md runs as it stands, and is told what the page says."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from hocket.apps.serve.outside_agent import OutsideAgent, told_scenario
from hocket.testing import rehearse
from hocket.types import Scenario

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
SCENARIO = Scenario("s", "What is 6 * 7?", answer="42")


def test_the_agent_of_the_page_runs(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "my_agent.py"
    file.write_text(block)
    (found,) = rehearse(OutsideAgent([sys.executable, str(file)]), SCENARIO, ["forty-two"])
    assert found.failure is None
    assert found.info["answer"] == "forty-two"


def test_the_page_names_what_a_program_is_told() -> None:
    _, _, table = PAGE.partition("| key | |\n")
    named = re.findall(r"^\| `(\w+)` \|", table.partition("\n\n")[0], re.MULTILINE)
    assert named == list(json.loads(told_scenario(SCENARIO)))
