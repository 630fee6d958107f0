"""What is published: the files of the package, its extras, its images, and a wheel that trains by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections import Counter
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from tiny_runs import TINY

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]


def tracked(*under: str) -> list[str]:
    """Files of the repository."""
    listed = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", *under]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_wheel_has_every_file_of_the_package() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["hocket"]
    data = [PurePosixPath(file).relative_to("hocket") for file in tracked("hocket") if not file.endswith(".py")]
    assert [str(file) for file in data if not any(file.match(pattern) for pattern in patterns)] == []


def test_a_package_is_named_in_one_extra() -> None:
    named = [Requirement(text) for texts in EXTRAS.values() for text in texts]
    counts = Counter(one.name.lower() for one in named if one.name != "hocket")
    assert [name for name, count in counts.items() if count > 1] == []
    assert {extra for one in named for extra in one.extras if one.name == "hocket"} <= EXTRAS.keys()


def test_every_extra_is_documented() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    bundles = {name for name, texts in EXTRAS.items() if all(text.startswith("hocket[") for text in texts)}
    rows = {name for row in re.findall(r"^\| (`[^|]*`) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert sorted(EXTRAS.keys() - bundles - rows) == []
    installed = (ROOT / "docs" / "install.md").read_text()
    assert [name for name in re.findall(r"^\| (`.*?`(?:, `.*?`)*) \|", installed, re.MULTILINE)
            for name in re.findall(r"`(\w+)`", name) if name not in EXTRAS] == []  # fmt: skip


def test_an_image_is_made_of_files_that_are_there() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    text = (ROOT / "Dockerfile").read_text()
    sources = [word for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert {word.removeprefix("./") for word in sources} == set(allowed)
    assert all((ROOT / name).exists() for name in allowed)
    assert re.findall(r"^FROM .* AS (\w+)$", text, re.MULTILINE) == ["base", "cpu", "cuda"]
    extras = set(re.findall(r"^ARG EXTRAS=(.*)$", text, re.MULTILINE))
    assert set(",".join(extras).split(",")) <= EXTRAS.keys()


def needed(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """An installed package with all that it needs, extras left out; what is not installed here it can do without."""
    if name.lower() in found:
        return found
    try:
        found[name.lower()] = distribution(name)
    except PackageNotFoundError:
        return found
    for text in found[name.lower()].requires or ():
        one = Requirement(text)
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            needed(one.name, found)
    return found


def run(*words: str | Path, **settings: str) -> str:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | settings
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_wheel_of_a_clean_clone_trains_in_a_bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone, bare = tmp_path / "clone", tmp_path / "bare"
    run("git", "clone", "--quiet", "--local", ROOT, clone)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, clone)
    (wheel,) = tmp_path.glob("hocket-*.whl")
    venv.create(bare)
    run(*pip, "--python", bare / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    # What it declares to need is lent by this environment, and nothing else is.
    (site,) = (bare / "lib").glob("python*/site-packages")
    found: dict[str, Distribution] = {}
    for text in PROJECT["project"]["dependencies"]:
        needed(Requirement(text).name, found)
    for one in found.values():
        for part in {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / part).exists():
                (site / part).symlink_to(Path(str(one.locate_file(part))))
    monkeypatch.chdir(tmp_path)
    where = run(
        bare / "bin" / "python", "-c", "import hocket, importlib.util as u; print(hocket.__file__, u.find_spec('peft'))"
    )
    assert where.startswith(str(site))
    assert where.rstrip().endswith("None")
    told = json.loads(
        run(bare / "bin" / "hocket", "train", *TINY, "--steps", "2", "--json", PATH=f"{bare}/bin:/usr/bin:/bin")
    )
    assert told["steps"] == 2
    assert Path(told["path"], "report.html").is_file()
    assert "recipe grpo" in run(bare / "bin" / "hocket", "watch", told["path"])
