"""Runs of others: what code a configuration names is found, and runs only if this user wrote it here or says so."""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import json
import os
import py_compile
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from hocket import tasks
from hocket.apps.play.operators import Place, operator, places_of
from hocket.apps.report.evaluation import load
from hocket.apps.report.plan import write_plan_report
from hocket.apps.serve.source import ModelSource
from hocket.core.components import to_plain
from hocket.core.discovery import Declaration, Names
from hocket.core.errors import ConfigurationError
from hocket.core.names import RECIPES
from hocket.core.user_files import load_object
from hocket.core.yaml_text import load_yaml
from hocket.recipes import find
from hocket.train import solve, trust
from hocket.train.config import configure, read_pairs
from hocket.train.optimise import run as optimise
from hocket.train.pipeline import PlanPipeline
from hocket.train.recorder import Recorder
from hocket.train.replay import replay
from hocket.train.runfolder import RunFolder, RunLock
from hocket.train.trainer import resumed
from hocket.train.trust import DESCRIPTIVE, SIGNATURE, check, named_code, run_pairs, sign


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, and a folder to be in."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "cache" / "hocket" / "trust" / "key"


# ---------------------------------------------------------------- what is found


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("evil.py:TASK", "file"),
        ("a.jsonl=0.5,/x/evil.py:T=0.5", "file"),
        ("lessons:../evil.py:T", "file"),
        ("debate?judge=evil%252Epy%253AF", "file"),
        ({"type": "evil.py:Independent"}, "file"),
        ({"a": [{"b": {"type": "subprocess.Popen", "args": ["touch"]}}]}, "module"),
        ({"type": "hocket.apps.serve.outside_agent.OutsideAgent", "command": "touch x"}, "module"),
        ({"type": "hocket.agents.tools.mcp.Server"}, "module"),
        ({"type": "hocket.train.trainer.Trainer"}, "module"),
        ({"type": "hocket.tasks.gym.GymTask", "environment": "evil:World"}, "module"),
        ({"type": "hocket.credit.gae.np"}, "module"),
        ({"type": "hocket"}, "module"),
        ({"type": "hocket.credit.GAE", "x": {"type": "os.system"}}, "module"),
        ("os.system", "module"),
        ("hocket.train.engines.find_python", "module"),
        ("gym:evil:World-v0", "module"),
        ("commands:gymnasium:evil.mod:World-v0", "module"),
        ("pettingzoo:evil.world", "module"),
        ("outside:touch MARK", "command"),
        ("  outside:touch MARK", "command"),
        ("tool-use?tools_of=calculator%2Cmcp%3Atouch%20MARK", "command"),
        ("http://evil.example/v1", "address"),
        ({"endpoint": "//evil.example/v1"}, "address"),
        ("hocket.rewards.functions.load_named", "module"),
        ("hocket.rewards.load_rewards", "module"),  # With a column `references` of files.
        ("openenv:evil.example:80", "address"),
        ("ray://evil.example:10001", "address"),
    ],
)
def test_what_names_code_is_found_wherever_it_stands(value: Any, kind: str) -> None:
    (found, *_) = named_code([("a.b", value)])
    assert found.kind == kind
    assert found.where.startswith("a.b")


def test_an_interpreter_and_a_folder_for_weights_are_found() -> None:
    found = named_code([("engine", {"type": "hocket.train.EngineSettings", "python": "/x/evil", "folder": "/y"})])
    assert [(one.where, one.kind) for one in found] == [("engine.python", "command"), ("engine.folder", "command")]
    assert named_code([("engine.python", "/x/evil"), ("engine.python", None)])[0].text == "/x/evil"


@pytest.mark.parametrize(
    "value",
    [
        *("sums", "data.jsonl", "a.jsonl=0.7,b.csv=0.3", "gym:CartPole-v1?g=9.8", "pettingzoo:classic.chess_v6"),
        *("Qwen/Qwen2.5-0.5B-Instruct", "meta-llama/Llama-3.1-8B", "./runs/x/model.safetensors", "FILE.gguf"),
        *(
            "model:runs/judge+runs/other?by=min=0.5",
            "tool-use?tools_of=calculator,python",
            "hocket.rewards.NormalisedMatch=0.5",
        ),
        *("mpe:spread", "1e-4", "", "happy.pyramid", 3, None, [1.5, True]),
    ],
)
def test_what_names_none_is_not(value: Any) -> None:
    assert named_code([("a", value)]) == ()


def test_a_name_of_an_installed_package_is_code_in_either_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = Declaration("my_task", "theirs.tasks", "MY_TASK")
    monkeypatch.setattr(trust, "TASKS", SimpleNamespace(own=Names(), declared=Names([theirs])))
    trust._of_packages.cache_clear()
    try:
        for name in ("my_task", "lessons:my-task?size=3", "built:my_task"):
            assert [one.kind for one in named_code([("task", name)])] == ["module"], name
    finally:
        trust._of_packages.cache_clear()


def test_recipes_of_the_library_name_none() -> None:
    for name in list(RECIPES.own)[::16]:
        assert named_code([("recipe", to_plain(find(name)))]) == (), name


def test_what_a_recipe_says_of_itself_may_speak_of_files_but_not_hold_components() -> None:
    plain = to_plain(find("grpo"))
    assert named_code([("recipe", {**plain, "note": "write FILE.py:NAME"})]) == ()
    assert named_code([("recipe", {**plain, "conventions": {"a": {"type": "os.system"}}})])
    assert named_code([("reward", {"note": "evil.py:f"})])  # No recipe.


@pytest.mark.parametrize("key", sorted(DESCRIPTIVE))
@pytest.mark.parametrize("inside", [lambda one: one, lambda one: [one], lambda one: {"a": [{"b": one}]}])
def test_a_component_in_what_a_recipe_says_of_itself_is_built_and_so_looked_at(
    key: str, inside: Callable[[Any], Any]
) -> None:
    component = {"type": "hocket.rewards.TaskVerifier", "verify": "evil.py:f"}
    (found,) = named_code([("recipe", {**to_plain(find("grpo")), key: inside(component)})])
    assert found.text == "evil.py:f"


def test_sets_and_lists_of_settings_are_looked_into(tmp_path: Path) -> None:
    """A set of YAML becomes a list where one is wanted, and `optimise` keeps settings as lists of key and value."""
    file = tmp_path / "config.yaml"
    file.write_text("reward: !!set {'evil.py:f'}\n")
    assert [one.text for one in named_code(read_pairs(file))] == ["evil.py:f"]
    pairs = [["decoding.top_p", 1.0], ["engine.python", "/x/evil"], ["roles.a.endpoint", "//evil/v1"]]
    assert {"/x/evil", "//evil/v1"} <= {one.text for one in named_code([("pairs", pairs)])}
    assert named_code([("tools", ["python", "calculator"])]) == ()


def test_an_emptied_configuration_is_not_taken_for_one_of_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(ConfigurationError, match="names no task"):
        run_pairs(tmp_path)


def test_a_search_whose_settings_are_damaged_is_named(tmp_path: Path) -> None:
    for damage in ({"pairs": "abc"}, {"budget": "x"}):
        (tmp_path / optimise.SETTINGS).write_text(json.dumps(damage))
        with pytest.raises(ConfigurationError, match=r"search\.json holds no settings of a search"):
            optimise.resumed(tmp_path)


def test_data_that_holds_itself_is_refused() -> None:
    data: dict[str, Any] = {}
    data["a"] = [data]
    with pytest.raises(ConfigurationError, match="holds itself"):
        named_code([("a", data)])


def test_yaml_whose_aliases_grow_beyond_all_bounds_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (tmp_path / "bomb.yaml").write_text("\n".join(lines))
    with pytest.raises(ConfigurationError, match="is not valid YAML: it holds more than"):
        read_pairs(tmp_path / "bomb.yaml")
    (tmp_path / "deep.yaml").write_text("a: " + "[" * 5000)
    with pytest.raises(ConfigurationError, match="nested more than 100 deep"):
        read_pairs(tmp_path / "deep.yaml")
    assert load_yaml("a: &x [1, 2]\nb: *x\nc: {<<: {d: 3}}") == {"a": [1, 2], "b": [1, 2], "c": {"d": 3}}
    with pytest.raises(yaml.YAMLError):
        load_yaml("a: !!python/object/apply:os.system ['true']")


# ---------------------------------------------------------------- who wrote it

REWARD = "def f(completions, **columns):\n    return [0.0 for _ in completions]\n"


def own_run(place: Path, reward: str = "mine.py:f", **settings: Any) -> Path:
    """A run that this user began, without any step."""
    place.mkdir(parents=True)
    pairs = [("reward", (reward,)), *settings.items()]
    said: list[str] = []
    recorder = Recorder(RunFolder(place), said.append)
    recorder.config(configure(pairs, tasks.find("sums")))
    assert not said
    return place


def test_what_this_user_wrote_needs_no_trust(cache: Path) -> None:
    Path("mine.py").write_text(REWARD)
    run = own_run(Path("runs/a"))
    assert dict(run_pairs(run))["reward"] == ["mine.py:f"]
    assert cache.stat().st_mode & 0o777 == 0o600
    # By hand: what stands in the signature, under the key, is what is checked.
    told, key = json.loads((run / SIGNATURE).read_text()), cache.read_bytes()
    content = hashlib.sha256((run / "config.yaml").read_bytes()).hexdigest()
    file = {"path": str(Path("mine.py").resolve()), "sha256": hashlib.sha256(REWARD.encode()).hexdigest()}
    what = {"name": "config.yaml", "content": content, "cwd": str(Path.cwd()), "files": {"mine.py": file}}
    text = b"hocket run 1\n" + json.dumps(what, sort_keys=True).encode()
    assert told["signature"] == hmac.new(key, text, "sha256").hexdigest()
    # One's own file may change, and the run's folder may move.
    Path("mine.py").write_text(REWARD + "# more\n")
    run_pairs(Path(shutil.move(run, "runs/b")))


def test_a_run_without_code_needs_neither_signature_nor_key(cache: Path) -> None:
    run = Path("runs/a")
    run.mkdir(parents=True)
    Recorder(RunFolder(run), print).config(configure([], tasks.find("sums")))
    assert not (run / SIGNATURE).exists()
    assert not cache.exists()
    run_pairs(run)


def _edited(run: Path) -> None:
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("workflow: null\n", "workflow: outside:touch x\n", 1))


def _of_another(run: Path) -> None:
    other = own_run(run.parent / "other", steps=7)
    shutil.copy(other / SIGNATURE, run / SIGNATURE)


def _forged_digest(run: Path) -> None:
    told = json.loads((run / SIGNATURE).read_text())
    told["files"]["mine.py"]["sha256"] = "0" * 64
    (run / SIGNATURE).write_text(json.dumps(told))


def _other_key(run: Path) -> None:
    key = Path(os.environ["XDG_CACHE_HOME"]) / "hocket" / "trust" / "key"
    key.unlink()
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)


def _open_key(run: Path) -> None:
    (Path(os.environ["XDG_CACHE_HOME"]) / "hocket" / "trust" / "key").chmod(0o644)


def _no_key(run: Path) -> None:
    (Path(os.environ["XDG_CACHE_HOME"]) / "hocket" / "trust" / "key").unlink()


def _garbage(run: Path) -> None:
    (run / SIGNATURE).write_text('{"signature": 3, "files": [], "cwd": null}')


def _unsigned(run: Path) -> None:
    (run / SIGNATURE).unlink()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_edited, "its signature is not yours from this machine, or it was changed since"),
        (_of_another, "its signature is not yours"),
        (_forged_digest, "its signature is not yours"),
        (_other_key, "its signature is not yours"),
        (_open_key, "is a key that other users can read; remove it"),
        (_no_key, "this user has no key on this machine yet"),
        (_garbage, "its signature is not yours|cannot be read"),
        (_unsigned, "it has no signature of yours"),
    ],
)
def test_what_was_changed_since_needs_trust(spoil: Callable[[Path], None], reason: str) -> None:
    Path("mine.py").write_text(REWARD)
    run = own_run(Path("runs/a"))
    spoil(run)
    with pytest.raises(ConfigurationError, match=reason) as refused:
        run_pairs(run)
    assert "mine.py:f" in str(refused.value)
    assert "add --trust (in Python trust=True)" in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    run_pairs(run, trust=True)


def test_a_file_of_another_place_must_be_the_one_that_was_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.py").write_text(REWARD)
    run = own_run(Path("runs/a"))
    elsewhere = Path("../elsewhere")
    shutil.copytree(".", elsewhere)
    monkeypatch.chdir(elsewhere)
    run_pairs(run)  # The same text.
    Path("mine.py").write_text("print('evil')")
    with pytest.raises(ConfigurationError, match=r"elsewhere/mine.py has changed since the run was made"):
        run_pairs(run)
    Path("mine.py").unlink()
    Path("evil.py").write_text("print('evil')")
    Path("mine.py").symlink_to("evil.py")
    with pytest.raises(ConfigurationError, match=r"elsewhere/evil.py has changed"):
        run_pairs(run)


def test_a_file_in_the_folder_of_the_run_must_be_the_one_that_was_signed() -> None:
    place = Path("runs/a")
    place.mkdir(parents=True)
    (place / "mine.py").write_text(REWARD)
    Recorder(RunFolder(place), print).config(configure([("reward", ("runs/a/mine.py:f",))], tasks.find("sums")))
    run_pairs(place)
    (place / "mine.py").write_text("print('evil')")  # As whoever hands the folder over can.
    with pytest.raises(ConfigurationError, match="has changed since the run was made"):
        run_pairs(place)


def test_modules_that_a_file_imports_belong_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("")
    Path("mine.py").write_text("import json\nimport helper_of_mine\n" + REWARD)
    Path("helper_of_mine.py").write_text("X = 1\n")
    run = own_run(Path("runs/a"))
    told = json.loads((run / SIGNATURE).read_text())
    assert sorted(told["files"]) == ["mine.py", "module helper_of_mine"]
    Path("helper_of_mine.py").write_text("X = 2\n")
    run_pairs(run)  # One's own, where it was.
    shutil.copytree(".", "../elsewhere")
    monkeypatch.chdir("../elsewhere")
    Path("helper_of_mine.py").write_text("print('evil')")
    with pytest.raises(ConfigurationError, match=r"elsewhere/helper_of_mine.py has changed"):
        run_pairs(run)


def test_a_command_is_that_of_the_folder_where_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("agent.sh").write_text("true\n")
    pairs = [("workflow", "outside:sh agent.sh")]
    Path("config.yaml").write_text("workflow: outside:sh agent.sh\n")
    assert sign(Path("config.yaml"), pairs) is None
    check(Path("config.yaml"), pairs)
    shutil.copytree(".", "../elsewhere")
    monkeypatch.chdir("../elsewhere")
    with pytest.raises(ConfigurationError, match="its commands are those of the folder"):
        check(Path("config.yaml"), pairs)


def test_a_file_is_run_as_it_is_written_whatever_is_compiled_beside_it() -> None:
    source = Path("seen.py")
    source.write_text("WHO = 'mine'\n")
    kept = source.stat()
    source.write_text("WHO = 'evil'\n")
    os.utime(source, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    compiled = py_compile.compile("seen.py", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert compiled == importlib.util.cache_from_source("seen.py")
    source.write_text("WHO = 'mine'\n")
    os.utime(source, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    assert load_object("seen.py:WHO") == "mine"


@pytest.mark.parametrize("broken", ["read-only", "homeless"])
def test_where_no_key_can_be_kept_the_run_says_so(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "read-only":
        Path("file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(Path("file").resolve()))  # Root may write wherever it is forbidden.
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home directory")))
    Path("mine.py").write_text(REWARD)
    place = Path("runs/a")
    place.mkdir(parents=True)
    said: list[str] = []
    Recorder(RunFolder(place), said.append).config(configure([("reward", ("mine.py:f",))], tasks.find("sums")))
    (sentence,) = said
    assert "is not signed" in sentence
    assert "--trust" in sentence
    assert (place / "messages.txt").read_text().strip() == sentence
    with pytest.raises(ConfigurationError, match="--trust"):
        run_pairs(place)
    Recorder(RunFolder(place), said.append).config(configure([], tasks.find("sums")))
    assert len(said) == 1  # Without code there is nothing to say.


# ---------------------------------------------------------------- who asks


def _seat() -> Place:
    return next(iter(places_of("dilemma:prisoners").values()))


def _plan(folder: Path, config: dict[str, Any]) -> None:
    (folder / "plan.yaml").write_text(yaml.safe_dump({"phases": [{"name": "1-a", "config": config}]}))


ASKING: dict[str, Callable[[Path], object]] = {
    "eval": lambda run: load(run, (), task=None, which="last"),
    "eval on another task": lambda run: load(run, (), task="sums", which="last"),
    "serve and play": lambda run: ModelSource.of(run),
    "resume": lambda run: resumed(run),
    "replay": lambda run: replay(run),
    "arena run:": lambda run: operator(f"run:{run}", _seat()),
    "arena model:": lambda run: operator(f"model:{run}", _seat()),
    "solve": lambda run: solve.resumed(run),
    "optimise": lambda run: optimise.resumed(run),
    "plan": lambda run: PlanPipeline.at(run),
}


@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize("setting", ["task", "workflow", "recipe", "type", "reward", "world"])
def test_nothing_of_a_stranger_runs_unasked(asking: str, setting: str) -> None:
    folder, mark = Path("a"), Path("MARK").resolve()
    folder.mkdir()
    evil = (folder / "evil.py").resolve()
    evil.write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n")
    named = f"{evil}:X"
    config: dict[str, Any] = {"task": "sums", "model": "nano", "world": "lock:3"}
    config |= {"objective": {"type": named}} if setting == "type" else {setting: named}
    (folder / "config.yaml").write_text(
        yaml.safe_dump({**config, "method": "a", "steps": 1, "seed": 0, "settings": {}})
    )
    (folder / "search.json").write_text(json.dumps({**config, "pairs": [["judge", named]]}))
    _plan(folder, config)
    with pytest.raises(ConfigurationError, match="--trust") as refused:
        ASKING[asking](folder)
    assert str(evil) in str(refused.value)
    assert not mark.exists()


def test_with_trust_it_runs() -> None:
    Path("a").mkdir()
    Path("evil.py").write_text("import pathlib\npathlib.Path('MARK').touch()\n")
    Path("a/config.yaml").write_text("task: evil.py:X\n")
    with pytest.raises(ConfigurationError, match="has no 'X'"):
        ModelSource.of(Path("a"), trust=True)
    assert Path("MARK").exists()


def test_a_configuration_given_to_train_is_looked_at_where_it_is_a_run_s() -> None:
    from hocket.train.trust import file_pairs

    Path("a").mkdir()
    Path("a/config.yaml").write_text("task: evil.py:X\n")
    assert file_pairs(Path("a/config.yaml"), trust=False) == [("task", "evil.py:X")]  # A file of settings, no run.
    Path("a/metrics.jsonl").touch()
    with pytest.raises(ConfigurationError, match="--trust"):
        file_pairs(Path("a/config.yaml"), trust=False)
    assert file_pairs(Path("a/config.yaml"), trust=True) == [("task", "evil.py:X")]


def test_the_page_of_a_plan_looks_up_nothing() -> None:
    folder = Path("a")
    folder.mkdir()
    (folder / "evil.py").write_text("import pathlib\npathlib.Path('MARK').touch()\n")
    recipe = {"type": "a/evil.py:R", "name": "<b>mine</b>"}
    _plan(folder, {"task": "a/evil.py:X", "recipe": recipe, "model": "nano", "steps": 3, "plan": []})
    text = write_plan_report(folder).read_text()
    assert "a/evil.py:X" in text
    assert "3 steps, not begun" in text
    assert "<b>mine</b>" not in text
    assert not Path("MARK").exists()
    (folder / "plan.yaml").write_text("phases: [{name: ../b, config: {}}]")
    with pytest.raises(ConfigurationError, match=r"a phase is called '../b'"):
        write_plan_report(folder)


def test_a_run_does_not_write_through_links() -> None:
    run = Path("a")
    run.mkdir()
    Path("precious").write_text("mine\n")
    (run / "messages.txt").symlink_to(Path("precious").resolve())
    with pytest.raises(ConfigurationError, match=r"a/messages.txt is a link"):
        RunLock(run)
    assert Path("precious").read_text() == "mine\n"


def test_every_command_on_a_run_that_may_bring_code_takes_trust() -> None:
    from hocket.apps.cli.parser import build_parser

    with_code = ("train", "eval", "replay", "serve", "play", "arena", "summarise", "solve", "optimise", "act", "export")
    for name in with_code:
        assert "--trust" in build_parser(name).commands[name].flags, name
    for name in ("report", "status", "compare"):  # These look at data alone.
        assert "--trust" not in build_parser(name).commands[name].flags, name
    assert isinstance(build_parser("eval").commands["eval"].parse_args(["RUN", "--trust"]), Namespace)


def test_packages_of_another_environment_on_the_path_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "other" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "elsewhere_installed.py").write_text("import os\n")
    Path("mine.py").write_text("import elsewhere_installed\n")
    monkeypatch.syspath_prepend(packages)
    trust._installed_in.cache_clear()
    files = trust._files([trust.NamedCode("task", "mine.py:T", "file")])
    trust._installed_in.cache_clear()
    assert list(files) == ["mine.py"]
