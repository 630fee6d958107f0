"""Tasks in Harbor's form, with a scripted docker whose containers are folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hocket.core.errors import ConfigurationError
from hocket.tasks import find
from hocket.tasks.harbor import HarborFolder
from hocket.testing import rehearse

DOCKER = r"""#!/bin/sh
# The containers are folders below $ROOT; /tests and /logs are in them.
ROOT=%s
echo "$@" | head -1 >> $ROOT/log
case "$1" in
  image) test -e $ROOT/images/$3 ;;
  build) grep -q broken $4/Dockerfile && { echo "step 2 is broken"; exit 1; }
    mkdir -p $ROOT/images; touch $ROOT/images/$3 ;;
  run) dir=$(mktemp -d $ROOT/box.XXXX); echo pulled; basename $dir ;;
  cp) mkdir -p $ROOT/${3%%:*}${3#*:}; cp -r $2 $ROOT/${3%%:*}${3#*:} ;;
  rm) rm -rf $ROOT/$3 ;;
  exec) shift
    while [ "$1" = -e ]; do export "$2"; shift 2; done
    cd $ROOT/$1; bash -c "$(echo "$4" | sed "s#/tests#$PWD/tests#g; s#/logs#$PWD/logs#g")" ;;
esac
"""

TEST = """#!/bin/bash
if [ "$(cat answer.txt 2>/dev/null)" = "$EXPECTED" ]; then echo 1 > logs/verifier/reward.txt
elif [ -e half.txt ]; then echo '{"reward": 0.5, "style": 1}' > logs/verifier/reward.json
elif [ -e wrong.txt ]; then echo nan > logs/verifier/reward.txt
elif [ -e silent.txt ]; then echo "no such file"; exit 3
else echo 0 > logs/verifier/reward.txt; fi
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    script = tmp_path / "docker"
    script.write_text(DOCKER % root)
    script.chmod(0o755)
    return script


def written(folder: Path, **settings: Any) -> Path:
    for name in ("environment", "tests"):
        (folder / name).mkdir(parents=True)
    (folder / "instruction.md").write_text(f"Write 42 into answer.txt ({folder.name}).")
    (folder / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (folder / "tests" / "test.sh").write_text(TEST)
    text = '[metadata]\ndifficulty = "easy"\n[verifier]\ntimeout_sec = 20.0\n[verifier.env]\nEXPECTED = "${NONE:-42}"\n'
    (folder / "task.toml").write_text(text + "[environment]\ncpus = 2\nmemory_mb = 512\nallow_internet = false\n")
    return folder


def call(command: str) -> str:
    return f"<tool_call>{json.dumps({'name': 'bash', 'arguments': {'command': command}})}</tool_call>"


def played(task: Any, *replies: str) -> Any:
    texts = iter(replies)
    return rehearse(task.workflow, task.scenario("train", 0), lambda messages: next(texts))[0]


def test_an_episode_is_in_a_container_and_scored_by_the_tests(engine: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        written(tmp_path / "tasks" / name)
    task: Any = find(f"harbor:{tmp_path / 'tasks'}?engine={engine}&turns=3")
    assert task.size("train") + task.size("eval") == 3
    scenario = task.scenario("train", 0)
    assert scenario.metadata["difficulty"] == "easy"
    assert scenario.prompt.startswith("Write 42 into answer.txt")
    right = played(task, call("echo 42 > answer.txt; cat answer.txt; cat nosuch"), call("ls"), "Done.")
    assert right.failure is None
    assert (right.scores["reward"].value, task.success(right)) == (1.0, 1.0)
    first, second = right.info["calls"]
    assert first["result"].startswith("error: exit code 1\n42\n")
    assert second["result"] == "answer.txt\n"
    half = played(task, call("touch half.txt"), "Done.")
    assert (half.scores["reward"].value, half.info["style"]) == (0.5, 1.0)
    assert played(task, "I do nothing.").scores["reward"].value == 0.0
    log = (tmp_path / "root" / "log").read_text()
    assert log.count("build -t") == 1
    assert "run -d --rm --cpus=2 --memory=512m --network=none hocket-harbor:" in log
    assert list((tmp_path / "root").glob("box.*")) == []


def test_tests_that_write_no_reward_fail_the_episode(engine: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        written(tmp_path / "tasks" / name)
    task: Any = find(f"harbor:{tmp_path / 'tasks'}?engine={engine}")
    assert (
        "wrote no reward; it ended with code 3: no such file" in played(task, call("touch silent.txt"), "Done.").failure
    )
    assert "which is no reward; write a number" in played(task, call("touch wrong.txt"), "Done.").failure
    assert list((tmp_path / "root").glob("box.*")) == []
    index = task.scenario("train", 0).metadata["index"]
    (tmp_path / "tasks" / "ab"[index] / "environment" / "Dockerfile").write_text("broken")
    assert "cannot build" in played(task, "Done.").failure


def test_folders_that_are_no_tasks_are_refused(engine: Path, tmp_path: Path) -> None:
    folder = written(tmp_path / "task")
    with pytest.raises(ConfigurationError, match="install docker, or name another one"):
        find(f"harbor:{folder}?engine=nosuch-docker")
    with pytest.raises(ConfigurationError, match=r"there is no task\.toml in"):
        find(f"harbor:{tmp_path / 'root'}?engine={engine}")
    for change, words in (
        (lambda: (folder / "tests" / "test.sh").unlink(), "has no tests/test.sh"),
        (lambda: (folder / "environment" / "docker-compose.yaml").write_text(""), "needs several containers"),
        (lambda: (folder / "instruction.md").unlink(), r"instruction.md cannot be read: No such file"),
        (lambda: (folder / "task.toml").write_text("= 3"), "is not valid TOML"),
    ):
        change()
        with pytest.raises(ConfigurationError, match=words):
            HarborFolder.read(folder)
