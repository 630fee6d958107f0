"""MAGPIE: talks among agents whose private facts would help to solve what they are to solve; task `magpie`.

A benchmark, so no recipe: the share of secrets that leak, said or implied, beside how often the task is solved. What it
claims runs beside. The paper's 200 scenarios are not here; cards of days that two agents must agree on are drawn.
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

MAGPIE = Analysis(
    name="magpie",
    title="MAGPIE: contextual privacy among agents; two agree on a day without telling their secrets; task magpie",
    where="hocket/zoo/tasks/magpie.py",
    kind="benchmark",
)
