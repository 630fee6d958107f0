"""Rows for agents and teams by the command of docs/agents.md: what its run came to in a few minutes.

    python benchmarks/agents_rows.py              # all rows, one after another
    python benchmarks/agents_rows.py gigpo rema   # some
    python benchmarks/agents_rows.py --page > docs/agents.md    # the page, from what was measured so far

Each command is run as it stands on the page, one thread, seed 0; its summary is kept in agents_rows.json beside this
file. A run gets `--limit` seconds (400), is then told to stop, and counts with the steps it came to.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

KEPT = Path(__file__).with_name("agents_rows.json")
FEW = 5
"""Steps whose samples are the first, and the last."""

THEN = " && hocket train "
"""Between two commands, of which the second is the row's."""

AGENTS = {
    "gigpo": "--recipe gigpo --steps 30",
    "mpo-meta-plan": "--recipe mpo-meta-plan --steps 20",
    "salt": "--recipe salt --steps 30",
    "mt-grpo": "--recipe mt-grpo --steps 30",
    "dmpo": "--recipe dmpo --steps 30",
    "agentflow": "--recipe agentflow --lessons 150 --steps 20",
    "sdpo": "--recipe sdpo --steps 20",
    "igpo": "--recipe igpo --steps 30",
    "tool-star": "--recipe tool-star-rl --task reckoning --steps 20",
    "agentgym-rl": "--recipe agentgym-rl --steps 30",
    "mua-rl": "--recipe mua-rl --task order-desk --lessons 60 --steps 15",
    "g-ra": "--recipe g-ra --steps 30",
    "epo-explicit": "--recipe epo-explicit --lessons 120 --steps 15",
    "epo-entropy": "--recipe epo-entropy --steps 30",
    "tapo-tool": "--recipe tapo-tool --task 'calculator?turns=6' --lessons 40 --steps 15",
    "oreo": "--recipe oreo --steps 40",
    "reasoning-sql": "--recipe reasoning-sql --lessons 80 --steps 10",
    "rlsqm": "--recipe rlsqm-reward --steps 30",
    "extract-method-ppo": "--plan '[{recipe: sft, steps: 60, update.lr: 0.003, task: extract-method}, "
    "{recipe: extract-method-ppo, steps: 20, task: extract-method}]'",
    "search-r1": "--recipe search-r1 --lessons 40 --steps 20",
    "gtr": "--recipe gtr --lessons 150 --steps 30",
    "rank-r1": "--recipe rank-r1 --lessons 60 --steps 20",
    "r1-searcher": "--recipe r1-searcher-retrieval --lessons 30 --steps 20",
    "r1-router": "--recipe r1-router --lessons 60 --steps 25",
    "hi-agent": "--recipe hi-agent --steps 15",
    "vista-tools": "--recipe vista-tools --lessons 100 --steps 40",
    "dgpo-distillation": f"--task lookup --run teacher --steps 30{THEN}"
    "--recipe dgpo-distillation --lessons 15 --teacher teacher --steps 15",
    "mobile-r1": "--recipe mobile-r1 --lessons 60 --steps 30",
    "doctoragent-rl": "--recipe doctoragent-rl --lessons 120 --steps 10",
    "search-r2": "--recipe search-r2 --lessons 160 --steps 15",
    "knowledge-injection-text-games": "--recipe knowledge-injection-text-games --lessons 60 --steps 25",
    "rrhf-code-optimization": "--recipe rrhf-code-optimization --steps 150",
    "cuda-l1": '--plan \'[{recipe: sft, steps: 60, update.lr: 0.003, task: "faster-loops?shown=0.5"}, '
    "{recipe: cuda-l1, steps: 20, task: faster-loops}]'",
    "mrag": "--recipe mrag --lessons 160 --steps 24",
    "verireason": "--plan '[{recipe: verireason-sft, steps: 60, update.lr: 0.003}, {recipe: verireason, steps: 12}]'",
    "veriprefer": "--plan '[{recipe: sft, steps: 60, update.lr: 0.003, task: circuits}, "
    "{recipe: veriprefer, steps: 12}]'",
}
TEAMS = {
    "rema": "--recipe rema --workflow 'meta-reasoner?system=false' --steps 60",
    "mashost": "--recipe mashost --lessons 100 --steps 20",
    "mmgrpo": "--recipe mmgrpo --steps 15",
    "at-grpo": "--recipe at-grpo --steps 20",
    "kairos": "--recipe kairos --task 'peer-quiz?counts=true' --lessons 60 --steps 20",
    "matpo": "--recipe matpo --steps 20",
    "mlpo": "--recipe mlpo --steps 20",
    "mac-spgg": "--recipe mac-spgg --steps 20",
    "marft": "--recipe marft --steps 20",
    "masprm": "examples/guided_team.yaml",
    "genii": "--recipe genii --steps 20",
    "optima": "--recipe optima --steps 20",
    "rlccf": "--recipe rlccf --steps 20",
    "cpmobius": "--recipe cpmobius --steps 20",
    "mars-self-play": "--recipe mars-self-play --task openspiel:kuhn_poker --steps 30",
    "cory": "--recipe cory --steps 20",
    "lspo-werewolf": "--recipe lspo-werewolf --steps 15",
    "magpie": "--task magpie --lessons 60 --steps 15",
    "collabuiagents": "--recipe collabuiagents --lessons 300 --update.lr 1e-3 --steps 40",
    "sentinel": "--recipe sentinel --lessons 60 --steps 60",
    "comam": "--recipe comam --steps 20",
    "waltzrl": "--recipe waltzrl --steps 20",
    "mmedagent-rl": "--recipe mmedagent-rl --lessons 60 --steps 20",
    "read-advantage-feedback": "--recipe read-advantage-feedback --lessons 120 --steps 12",
    "lca": "--recipe lca --steps 15",
    "llm4mac": "--recipe llm4mac --lessons 30 --steps 12",
    "videochat-m1": "--recipe videochat-m1 --lessons 120 --steps 24",
    "samalm": "--recipe samalm --task verified:crossing --lessons 220",
}

FLAT = "too few steps to rise; `hocket recipes --check` shows that it learns, in tables"
PAIRS = "half of the answers in the pairs are right by construction, so samples earn a half"
CIRCLES = "greedy play walks in circles where samples get out"
WHY = {
    "gigpo": CIRCLES,
    "salt": CIRCLES,
    "dmpo": CIRCLES,
    "epo-entropy": CIRCLES,
    "agentgym-rl": CIRCLES,
    "hi-agent": CIRCLES,
    "mpo-meta-plan": FLAT,
    "sdpo": f"{PAIRS}; {CIRCLES}",
    "oreo": PAIRS,
    "search-r1": "greedy answers are right after the lessons; samples follow",
    "r1-searcher": "greedy answers are mostly right after the lessons; samples follow",
    "comam": FLAT,
    "waltzrl": FLAT,
    "rlccf": FLAT,
    "cpmobius": FLAT,
    "mars-self-play": "a zero-sum game: exploitability, which falls in tables, is the measure",
    "rema": "without system prompts, because the shipped model was not trained on them",
    "masprm": "only the value is learnt, in weights that write no answers; its use is `hocket eval NAME --search` "
    "([search](search.md#answers-that-a-value-chose)): .32 to .62 of sums",
    "doctoragent-rl": "the reward of samples rises, greedy success does not",
    "samalm": "critics separate unsafe commands, but actors propose nothing better after a refusal",
    "cuda-l1": "samples try more as they learn; greedy programs are all faster",
    "mrag": "it imitates its best episodes, which all earn 1",
    "rrhf-code-optimization": "the ranked programs are recorded, not sampled",
    "lca": "without `--judge` the value of a state is the episode's return; nothing rises",
}
"""What is to be known of a row's figures, and why nothing rises where nothing does."""

INTRO = """# Agents and teams, row by row

The rows of the [catalogue](catalogue.md) for agents and teams that `hocket train` runs, each with its command and the
result of one run.

| column | meaning |
|---|---|
| samples | mean reward of the samples in the first and in the last five steps |
| greedy | share of 100 unseen problems (or all there are) that greedy answers solve, before and after |

All runs use the shipped model, seed 0 and one thread; most take two to six minutes. `hocket report` shows the curve.
One run is no evidence for a method: `hocket recipes --check ROW` tests what a row claims, over several seeds.
`python benchmarks/agents_rows.py ROW` measures a row again.
"""


def measured(command: str, limit: float) -> dict[str, Any]:
    """What a run came to: success before and after, mean rewards of its first and last steps, seconds."""
    with tempfile.TemporaryDirectory() as folder:
        *before, own = command.split(THEN)
        for one in before:
            asked = [sys.executable, "-m", "hocket", "train", *shlex.split(one), "--quiet", "--runs", folder]
            subprocess.run(asked, check=True, env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
        said = shlex.split(own)
        flags = [] if said[0].endswith(".yaml") else ["--evaluation.n", "100", "--evaluation.every", "0"]
        asked = [sys.executable, "-m", "hocket", "train", *said, *flags, "--quiet", "--json", "--runs", folder]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as run:
            try:
                out, err = run.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                run.send_signal(signal.SIGINT)
                out, err = run.communicate()
        if run.returncode not in (0, 130):
            return {"failed": err.strip().splitlines()[-1] if err.strip() else f"exit {run.returncode}"}
        rewards = _rewards(Path(folder))
    # A plan of several runs tells of each; the last one is the method's.
    told = _last(out)
    ends = {end: told.get(end, {}).get(told.get("measure", "accuracy")) for end in ("before", "after")}
    first, last = (fmean(some) if some else None for some in (rewards[:FEW], rewards[-FEW:]))
    return {**ends, "measure": told.get("measure"), "first": first, "last": last, "steps": len(rewards)}


def _rewards(folder: Path) -> list[float]:
    """Mean rewards of the steps of the last run in a folder."""
    files = sorted(folder.rglob("metrics.jsonl"), key=lambda file: file.stat().st_mtime)
    rows = [json.loads(line) for line in files[-1].read_text().splitlines()] if files else []
    return [row["reward/mean"] for row in rows if row.get("reward/mean") is not None]


def _last(out: str) -> dict[str, Any]:
    try:
        told = json.loads(out)
    except ValueError:
        return {}
    phases = told.get("phases")
    return phases[-1] if isinstance(phases, list) and phases else told


def page() -> str:
    """The page of all rows, as Markdown."""
    kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    lines = [INTRO]
    for title, rows in (("Agents", AGENTS), ("Teams", TEAMS)):
        lines += [f"## {title}", "", "| row | `hocket train` | steps | samples | greedy | |", f"|{6 * '---|'}"]
        for row, command in rows.items():
            found = kept.get(row)
            if found is None:
                lines.append(f"| {row} | `{command}` | | | | not measured yet |")
                continue
            first, last, before, after = (_number(found.get(end)) for end in ("first", "last", "before", "after"))
            steps = found.get("steps") or ""
            cells = [steps, _span(first, last), _span(before, after), WHY.get(row, "")]
            lines.append(f"| {row} | `{command}` | {' | '.join(map(str, cells))} |")
        lines.append("")
    return "\n".join(lines)


def _span(first: str, last: str) -> str:
    return f"{first} to {last}" if first or last else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--limit", type=float, default=400.0)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        print(page())
        return
    commands = AGENTS | TEAMS
    for row in options.rows or commands:
        found = measured(commands[row], options.limit)
        kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
        KEPT.write_text(json.dumps(dict(sorted((kept | {row: found}).items())), indent=1) + "\n")
        print(row, found, flush=True)


if __name__ == "__main__":
    main()
