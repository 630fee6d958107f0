"""`hocket swarm` as a user types it: nodes that learn from each other's answers, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_runs import call

TINY = ["--task", "sums", "--own", "1", "--shared", "1", "--steps", "2", "--quiet", "--json"]
TINY += ["--evaluation.n", "4", "--evaluation.between", "2", "--rollout.samples", "2", "--decoding.max_tokens", "8"]


def test_nodes_learn_from_what_others_sampled(tmp_path: Path) -> None:
    said = call("swarm", "--nodes", "2", *TINY, "--rollout.drop", "false", "--out", tmp_path / "swarm")
    assert said.code == 0, said.err
    found = said.json
    assert sorted(found["nodes"]) == ["node-0", "node-1"]
    for name, node in found["nodes"].items():
        assert node["fault"] is None
        assert node["shared_groups"] > 0
        rows = [json.loads(line) for line in (tmp_path / "swarm" / name / "metrics.jsonl").read_text().splitlines()]
        assert rows[-1]["step"] == 2
        assert rows[-1]["shared/groups"] == 1.0


REFUSED = {
    "nobody to learn from": (["--nodes", "1"], "a swarm has at least 2"),
    "nothing to learn from": (["--nodes", "2", "--own", "0", "--shared", "0"], "own + shared = 0"),
    "only attackers": (["--nodes", "2", "--attackers", "2"], "attackers = 2: they must be fewer than the 2 nodes"),
    "an unknown defence": (["--nodes", "2", "--defence", "likelyhood"], "defence 'likelyhood' is unknown"),
    "a text of nobody": (["--nodes", "2", "--text", "ha"], "text is what attackers put into answers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str, tmp_path: Path) -> None:
    more, words = REFUSED[case]
    said = call("swarm", *more, "--out", tmp_path / "swarm")
    assert said.code == 2
    assert words in " ".join(said.err.split())
    assert not (tmp_path / "swarm").exists()
