"""The command line: thin, and every command's work is a function elsewhere."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from hocket import __version__
from hocket.apps.cli import list_flags
from hocket.apps.cli.command import AGENTS, GROUPS, LOOK, METHODS, ROW_COMMANDS, SYSTEM, Command
from hocket.apps.cli.command import TRAIN as TRAINING
from hocket.apps.cli.details import (
    ARENA,
    DOCTOR,
    EVAL,
    EXPORT,
    MICROSCOPE,
    OPTIMISE,
    OVERVIEW,
    PLAY,
    SERVE,
    SOLVE,
    START,
    STUDY,
    SWARM,
    TRAIN,
)
from hocket.apps.cli.list_flags import as_json
from hocket.apps.cli.values import checked
from hocket.core.ending import asked_to_end, end_at_once, interrupted, progress_may_be_lost
from hocket.core.errors import INTERRUPTED, ConfigurationError, HocketError, refusal, suggestion
from hocket.core.notices import listening
from hocket.core.waits import watched

COMMANDS = {
    "train": "training",
    "eval": "runs",
    "report": "runs",
    "status": "runs",
    "replay": "runs",
    "compare": "runs",
    "export": "exporting",
    "study": "studies",
    "simulate": "simulating",
    "swarm": "swarm",
    "optimise": "optimise",
    "solve": "solve",
    "recipes": "methods",
    "primitives": "methods",
    "catalogue": "methods",
    "tasks": "lists",
    "workflows": "lists",
    "microscope": "microscope",
    "serve": "serving",
    "play": "serving",
    "arena": "arena",
    "pretrain": "machine",
    "doctor": "machine",
}
"""The module of each command, imported when it is run. Rows of the catalogue bring others, see `Command`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code: 0 success, 1 failed, 2 bad usage, 130 after Ctrl-C, SIGTERM or SIGHUP."""
    if arguments is not None:
        return _main(list(arguments))
    progress_may_be_lost()
    # Python makes an exception of Ctrl-C, so that commands leave things in order; of the others too.
    with asked_to_end(interrupted, (signal.SIGTERM, signal.SIGHUP)):
        code = _main(sys.argv[1:])
    if code == INTERRUPTED:
        end_at_once(code)  # The process ends now: one more Ctrl-C would break into what Python does at its end.
    return code


def _main(arguments: list[str]) -> int:
    debug = "--debug" in arguments
    try:
        with listening(lambda sentence: print(f"! {sentence}", file=sys.stderr)):
            return _dispatch([argument for argument in arguments if argument != "--debug"])
    except HocketError as error:
        if debug:
            traceback.print_exc()
        print(f"hocket: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe left (`hocket tasks | head`); nothing is left to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if debug:
            traceback.print_exc()
        print(f"hocket: {refusal(error)}", file=sys.stderr)
        return 1
    except Exception as error:
        more = "" if debug else " (run again with --debug for the traceback)"
        if debug:
            traceback.print_exc()
        print(f"hocket: {type(error).__name__}: {error}{more}", file=sys.stderr)
        return 1


def _dispatch(arguments: list[str]) -> int:
    parser = build_parser(arguments[0] if arguments else "")
    names = parser.commands
    if arguments and not arguments[0].startswith("-") and arguments[0] not in names:
        look = "`hocket --help` lists all commands"
        raise ConfigurationError(f"there is no command {arguments[0]!r}{suggestion(arguments[0], names, look)}")
    command = names.get(arguments[0]) if arguments else None
    pairs: list[tuple[str, Any]] = []
    if command is not None and command.get_default("takes_settings"):
        arguments, pairs = split_settings(arguments, command.flags)
    known = parser.parse_args(arguments)
    if not hasattr(known, "run_command"):
        print(START)
        return 0
    quiet = getattr(known, "quiet", False)
    with nullcontext() if quiet else watched(lambda sentence: print(f"… {sentence}", file=sys.stderr)):
        return int(known.run_command(known, pairs))


def _work(name: str) -> Callable[[argparse.Namespace, list[tuple[str, Any]]], int]:
    """What does the work of a command of the library; its module is imported when it is called."""

    def work(options: argparse.Namespace, pairs: list[tuple[str, Any]]) -> int:
        return int(getattr(importlib.import_module(f"hocket.apps.cli.{COMMANDS[name]}"), name)(options, pairs))

    return work


class _Help(argparse.RawDescriptionHelpFormatter):
    """Descriptions as written, and room for the longest flag beside its text."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)


class _Parser(argparse.ArgumentParser):
    """Reports bad usage the way the rest of the library does, and knows its own flags."""

    commands: dict[str, _Parser]

    def __init__(self, *args: Any, **keywords: Any) -> None:
        self.flags: set[str] = set()
        self.overview = ""
        super().__init__(*args, **keywords)

    def add_argument(self, *names: Any, **keywords: Any) -> Any:
        self.flags.update(name for name in names if name.startswith("-"))
        if "type" in keywords:
            keywords["type"] = checked(names[0], keywords["type"])
        return super().add_argument(*names, **keywords)

    def format_help(self) -> str:
        return self.overview or super().format_help()

    def error(self, message: str) -> Any:
        if "unrecognized arguments: " in message and "=" in message.partition(": ")[2].split()[0]:
            message += "; a setting is written --KEY VALUE"
        raise ConfigurationError(f"{message} (see `{self.prog} -h`)")


PLAIN: Mapping[str, Any] = {"formatter_class": _Help, "allow_abbrev": False}


class _Unchosen(_Parser):
    """A command that is not run: its name alone, since every flag takes time."""

    def add_argument(self, *names: Any, **keywords: Any) -> Any:
        """Leaves the flag out."""


def split_settings(arguments: Sequence[str], flags: set[str]) -> tuple[list[str], list[tuple[str, Any]]]:
    """Takes settings (`--a.b 1 --c=x --d`) out of the arguments, leaving those whose flag is among `flags`.

    Values are read as YAML, and a setting without a value is true.
    """
    import yaml

    others: list[str] = []
    pairs: list[tuple[str, Any]] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        key, equals, text = word[2:].partition("=")
        if not word.startswith("--") or not key or f"--{key}" in flags:
            others.append(word)
            if word.startswith("--") and not equals and rest and not rest[0].startswith("--"):
                others.append(rest.pop(0))
            continue
        if not equals:
            text = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            value = text
        pairs.append((key.replace("-", "_"), value))
    return others, pairs


def build_parser(chosen: str = "") -> _Parser:
    """All commands; with one `chosen` its flags alone, else those of all but the commands that rows bring.

    Raises:
        ConfigurationError: when a row brings a command that there is already.
    """
    parser = _Parser(prog="hocket", **PLAIN)
    parser.add_argument("--version", action="version", version=f"hocket {__version__}")
    parser.add_argument("--debug", action="store_true")
    commands = parser.add_subparsers(dest="command", parser_class=_Parser)
    listed: dict[str, list[str]] = {group: [] for group in GROUPS}

    def command(name: str, text: str, group: str, *, settings: bool = False, details: str | None = None) -> _Parser:
        listed[group].append(f"  {name:<11} {text}")
        commands._parser_class = _Unchosen if chosen in COMMANDS and name != chosen else _Parser
        added: _Parser = commands.add_parser(name, description=details or text, **PLAIN)
        added.set_defaults(run_command=_work(name), takes_settings=settings)
        return added

    _train(command("train", "train a policy", TRAINING, settings=True, details=TRAIN))
    measure = "measure a run or a model: greedy accuracy, pass@k, win rate"
    _eval(command("eval", measure, TRAINING, settings=True, details=EVAL))
    list_flags.recipes(command("recipes", "list, show or compare methods, or check their papers' claims", METHODS))
    primitives = command("primitives", "list every stage that recipes are composed of", METHODS)
    stages = "of one kind: curriculum, rollout, rewards, credit, objectives, ..."
    primitives.add_argument("--stage", metavar="NAME", help=stages)
    primitives.add_argument("--unused", action="store_true", help="list public definitions with one user or none")
    as_json(primitives)
    as_json(command("catalogue", "list the published methods, and how many of their claims hold", METHODS))
    list_flags.tasks(command("tasks", "list the tasks, or show samples of one", METHODS))
    list_flags.workflows(command("workflows", "list the workflows and their settings, or describe one", AGENTS))
    list_flags.report(command("report", "write a run's report as a web page and print its path", LOOK))
    status = command("status", "show how far a run is and what its processes do", LOOK)
    list_flags.a_run(status)
    as_json(status)
    again = command("replay", "repeat a run and check that weights and metrics are equal", LOOK)
    list_flags.a_run(again)
    again.add_argument("--quiet", action="store_true", help="no progress")
    _trust(again)
    as_json(again)
    compare = command("compare", "compare runs in the terminal and as a web page", TRAINING)
    compare.add_argument("run", metavar="RUN", nargs="+")
    compare.add_argument("--runs", default="runs", metavar="DIR")
    compare.add_argument("--html", metavar="FILE", help="also write a web page with the curves")
    as_json(compare)
    written = "write a run's policy as a model folder, as GGUF or to the hub"
    _export(command("export", written, TRAINING, details=EXPORT))
    _study(
        command(
            "study",
            "compare recipes over seeds with equal budgets and intervals",
            TRAINING,
            settings=True,
            details=STUDY,
        )
    )
    _simulate(command("simulate", "simulate asynchronous training on many nodes", SYSTEM))
    _swarm(command("swarm", "train nodes that learn from each other's answers", TRAINING, settings=True, details=SWARM))
    _optimise(command("optimise", "improve prompts instead of weights", TRAINING, settings=True, details=OPTIMISE))
    _solve(command("solve", "solve a small world exactly, step by step", TRAINING, settings=True, details=SOLVE))
    for brought in ROW_COMMANDS.declared.values():
        if brought.name in COMMANDS:
            raise ConfigurationError(
                f"{brought.module} brings a command {brought.name!r}, and there is one already; rename it"
            )
        added = command(brought.name, brought.description, brought.family or LOOK, settings=True)
        if brought.name == chosen:
            _brought(added, brought.load())
    _arena(command("arena", "let policies, models, scripts and people play in one world", AGENTS, details=ARENA))
    pretrain = command("pretrain", "train a nano base again, from generated text, pictures or sounds", SYSTEM)
    what = "the base, or nano-vlm or nano-audio over it"
    pretrain.add_argument("--what", choices=("words", "vlm", "audio"), default="words", help=what)
    pretrain.add_argument("--seed", type=int, default=None)
    pretrain.add_argument("--out", default="nano-base", metavar="DIR")
    microscope = command("microscope", "show what recipes compute from one recorded batch", METHODS, details=MICROSCOPE)
    microscope.add_argument("--batch", metavar="FILE.json", help="a recorded batch")
    microscope.add_argument("--recipe", metavar="NAME", action="append", default=[], help="a recipe, or several")
    microscope.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a change of every recipe")
    microscope.add_argument("--seed", type=int, default=0, metavar="N", help="seed of recipes that draw at random (0)")
    microscope.add_argument("--html", metavar="FILE", help="write a web page: the same tokens under each recipe")
    microscope.add_argument("--record", metavar="RUN", help="write a batch that this run recorded instead")
    microscope.add_argument("--runs", default="runs", metavar="DIR")
    microscope.add_argument("--step", type=int, metavar="K", help="the step to record (the last one written)")
    microscope.add_argument("--out", metavar="FILE.json", help="the file that --record writes")
    as_json(microscope)
    served = "serve a run or a model as an OpenAI-compatible endpoint"
    _serve(command("serve", served, AGENTS, settings=True, details=SERVE))
    _play(command("play", "talk to a trained agent, or play with or against it", AGENTS, settings=True, details=PLAY))
    doctor = command("doctor", "check the installation, or what fits of a model", SYSTEM, settings=True, details=DOCTOR)
    doctor.add_argument("--context", type=int, metavar="N", help="tokens of a sequence (2048)")
    doctor.add_argument("--memory", metavar="SIZE", help="the memory of a card, as 24GiB; else that of this machine")
    as_json(doctor)
    parser.commands = dict(commands.choices)
    groups = (f"\n{group}\n" + "\n".join(lines) for group, lines in listed.items())
    parser.overview = OVERVIEW.format(commands="\n".join(groups)) + "\n"
    return parser


def _brought(parser: _Parser, command: Command) -> None:
    """What a row says of its command."""
    parser.description = command.details
    parser.set_defaults(run_command=command.run, takes_settings=command.settings)
    command.flags(parser)
    if command.trust:
        _trust(parser)
    as_json(parser)


def _train(parser: _Parser) -> None:
    parser.usage = "hocket train [CONFIG.yaml] [--FLAG VALUE ...]"
    parser.add_argument("config", nargs="?", metavar="CONFIG.yaml", help="settings in a file; flags override it")
    for flag, metavar, text in (
        ("--task", "NAME", "a task, a data file, hub:OWNER/NAME or FILE.py:NAME (sums)"),
        ("--eval-task", "NAME", "another task to evaluate on (the task's unseen scenarios)"),
        ("--recipe", "NAME", "a method, or FILE.py:NAME (grpo)"),
        ("--model", "PATH", "nano[-vlm, -audio], smollm2, a folder, FILE.gguf, hub name"),
        ("--workflow", "NAME", "a workflow, or FILE.py:NAME (one answer a prompt)"),
        ("--tools", "NAMES", "calculator, python, search:PATH or mcp:COMMAND"),
        ("--judge", "NAME", "a model, a run, a URL or FILE.py:FUNCTION (rule)"),
        ("--teacher", "MODEL", "a model, run or server in place of the reference"),
        ("--embedder", "NAME", "policy, ngrams, sentence-transformers:NAME, .."),
        ("--run", "NAME", "name of the run folder (the next free name)"),
        ("--runs", "DIR", "the folder that holds all runs (runs)"),
        ("--resume", "RUN", "continue a run; with --steps, --runs or --track"),
    ):
        parser.add_argument(flag, metavar=metavar, help=text)
    reward = "FILE.py:FUNCTION[=WEIGHT] or model:RUN; repeatable"
    parser.add_argument("--reward", metavar="NAME", action="append", help=reward)
    parser.add_argument("--steps", type=int, metavar="N", help="training steps (the task's suggestion)")
    parser.add_argument("--lessons", type=int, metavar="N", help="supervised steps first (the task's, with nano)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of everything random (0)")
    over = "with --resume: begin again, without checkpoints"
    parser.add_argument("--start-over", action="store_true", help=over)
    parser.add_argument("--list-flags", action="store_true", help="list all settings with their values, and end")
    parser.add_argument("--quiet", action="store_true", help="no live display")
    _trust(parser)
    as_json(parser)


def _trust(parser: _Parser) -> None:
    parser.add_argument("--trust", action="store_true", help="let runs of others execute the code that they name")


def _eval(parser: _Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run folder or its name, or a model folder with --task")
    parser.add_argument("--runs", default="runs", metavar="DIR")
    parser.add_argument("--n", type=int, default=1000, help="number of unseen scenarios (1000)")
    parser.add_argument("--samples", type=int, default=0, metavar="K", help="also sample K answers to each, for pass@k")
    parser.add_argument("--task", metavar="NAME", help="another task than the run's")
    search = "search by the run's value function: beam, best or tree (?width=2&..)"
    parser.add_argument("--search", metavar="WAY", help=search)
    parser.add_argument("--answers", metavar="FILE", help="append the greedy answers to this file, a line of JSON each")
    parser.add_argument("--format", choices=("lm-eval",), help="also write the files of lm-evaluation-harness")
    parser.add_argument("--out", metavar="DIR", help="with --format: the folder to write into (lm-eval)")
    parser.add_argument("--blind", action="store_true", help="show grey pictures, play silence: what words alone give")
    parser.add_argument("--against", metavar="RUN2", help="a run or model to compare answers with")
    beside = "with --task SHIFTED: what RUN loses there to RUN2, trained there, on the same scenarios"
    parser.add_argument("--beside", metavar="RUN2", help=beside)
    parser.add_argument("--judge", metavar="NAME", help="with --against: the judge that compares answers (the task)")
    parser.add_argument("--temperature", type=float, metavar="T", help="with --against: temperature of both (0)")
    parser.add_argument("--checkpoint", choices=("last", "best"), default="last")
    _trust(parser)
    as_json(parser)


def _export(parser: _Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run folder or its name")
    parser.add_argument("--runs", default="runs", metavar="DIR")
    parser.add_argument("--checkpoint", choices=("last", "best"), default="last")
    parser.add_argument(
        "--policy", metavar="NAME", help="which policy of a team; with --onnx, which agent (the only one)"
    )
    parser.add_argument("--out", metavar="DIR", help="the folder to write, which must not exist (RUN/export)")
    parser.add_argument("--merge", action="store_true", help="add adapters to the weights")
    parser.add_argument("--gguf", action="store_true", help="also write model.gguf, merged")
    parser.add_argument("--onnx", action="store_true", help="also write model.onnx, of a controller")
    average = "a run or model folder: write the mean of both models' weights"
    parser.add_argument("--average", metavar="RUN", help=average)
    parser.add_argument("--share", type=float, metavar="S", help="with --average: weight of the second model (0.5)")
    parser.add_argument("--push", metavar="OWNER/NAME", help="also upload the folder to the Hugging Face hub")
    parser.add_argument("--private", action="store_true", help="with --push: make a new repository private")
    _trust(parser)
    as_json(parser)


def _study(parser: _Parser) -> None:
    parser.add_argument("study", nargs="?", metavar="STUDY.yaml", help="what to compare; flags override it")
    parser.add_argument("--recipes", metavar="A,B,C", help="recipes, by name or FILE.py:NAME")
    parser.add_argument("--baseline", metavar="NAME", help="the recipe that the others are compared with (grpo)")
    teams = "workflows to compare at equal --tokens, the first with the others"
    parser.add_argument("--teams", metavar="A,B", help=teams)
    parser.add_argument("--tokens", type=int, metavar="N", help="budget of a run in sampled tokens instead of answers")
    parser.add_argument("--task", metavar="NAME", action="append", help="a task, as in `hocket train`; one or several")
    parser.add_argument(
        "--model", metavar="PATH", help="nano, nano-vlm, nano-audio, smollm2, a folder, FILE.gguf or a hub name"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="test seeds of every recipe and task (5)")
    parser.add_argument("--steps", type=int, metavar="N", help="budget of a run: steps (30)")
    parser.add_argument("--prompts", type=int, metavar="P", help="budget of a run: prompts per step (8)")
    parser.add_argument("--samples", type=int, metavar="G", help="budget of a run: answers per prompt (8)")
    parser.add_argument("--lr", metavar="A,B,C", help="learning rates to choose from, on tuning seeds")
    parser.add_argument("--workers", type=int, metavar="N", help="runs in parallel (one per core)")
    parser.add_argument("--cluster", metavar="WHERE", help="run the study on a Ray cluster: auto or ray://HOST:PORT")
    parser.add_argument("--out", metavar="DIR", help="the study's folder (runs/studies/NAME)")
    parser.add_argument("--dry-run", action="store_true", help="only print how many runs and hours it would take")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    as_json(parser)


def _simulate(parser: _Parser) -> None:
    for name, number, meaning in (
        ("nodes", 100, "nodes that sample"),
        ("places", 8, "groups that a node samples in parallel"),
        ("batch", 1024, "groups per training step"),
        ("steps", 100, "training steps"),
        ("lag", 2, "by how many versions the weights of a group may be old"),
        ("seed", 0, "seed of everything random"),
    ):
        parser.add_argument(f"--{name}", type=int, default=number, metavar="N", help=f"{meaning} ({number})")
    parser.add_argument(
        "--order",
        choices=("start", "arrival"),
        default="arrival",
        help="order in which steps take groups (arrival)",
    )
    parser.add_argument("--link", default="1Gbit", metavar="RATE", help="network rate of every node (1Gbit)")
    parser.add_argument("--delay", default="80ms", metavar="TIME", help="network delay of a message (80ms)")
    parser.add_argument("--weights", default="4.8MB", metavar="SIZE", help="size of one version of the weights (4.8MB)")
    parser.add_argument("--relays", action=argparse.BooleanOptionalAction, default=True, help="nodes pass weights on")
    for name, value, meaning in (
        ("median", 500.0, "median of the tokens of a group's longest sample"),
        ("spread", 0.8, "standard deviation of the logarithm of these tokens"),
        ("speed", 50.0, "tokens per second of each group that is sampled"),
        ("learn", 30.0, "seconds of a training step"),
        ("die", 0.0, "share of nodes that fail"),
        ("slow", 0.0, "share of nodes that are ten times slower"),
        ("lost", 0.0, "share of results that get lost"),
        ("notice", 30.0, "seconds until a loss is noticed"),
    ):
        parser.add_argument(f"--{name}", type=float, default=value, metavar="X", help=f"{meaning} ({value:g})")
    as_json(parser)


def _solve(parser: _Parser) -> None:
    for flag, metavar, text in (
        ("--method", "NAME", "a method from --list, or FILE.py:NAME (value-iteration)"),
        ("--world", "NAME", "lock:10, grid:4x4, FILE.npz or FILE.py:NAME (the method's default)"),
        ("--out", "DIR", "a new folder (runs/solve-NNN)"),
        ("--resume", "DIR", "continue an interrupted run; its numbers stay the same"),
    ):
        parser.add_argument(flag, metavar=metavar, help=text)
    parser.add_argument("--steps", type=int, metavar="N", help="steps of the method (its default)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of all random draws (0)")
    parser.add_argument("--list", action="store_true", help="list the methods and the worlds")
    _trust(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    as_json(parser)


def _optimise(parser: _Parser) -> None:
    for flag, text in (
        ("--budget", "calls of the model (500)"),
        ("--tokens", "the most tokens that the model samples (no limit)"),
        ("--practice", "cases from which proposals are made (32)"),
        ("--development", "cases on which the best proposal is chosen (32)"),
        ("--evaluation", "cases on which the result is measured at the end (100)"),
        ("--longest", "the most tokens of an answer of the reflecting model (256)"),
        (
            "--lessons",
            "supervised steps on the task's lessons first (where they teach what the searcher asks)",
        ),
        ("--seed", "seed of all random draws (0)"),
    ):
        parser.add_argument(flag, type=int, metavar="N", help=text)
    for flag, metavar, text in (
        ("--task", "NAME", "as in `hocket train` (sums)"),
        ("--workflow", "NAME", "as in `hocket train`"),
        ("--model", "NAME", "as in `hocket train`, http://HOST:PORT/v1#NAME or FILE.py:FUNCTION (nano)"),
        ("--searcher", "NAME", "a searcher from --list (reflective)"),
        ("--reflector", "NAME", "the model that proposes, named like --model (the model itself)"),
        ("--start", "TEXT", "the first prompt of all roles, or a JSON file of texts"),
        ("--out", "DIR", "a new folder (runs/optimise-NNN)"),
        ("--resume", "DIR", "continue an interrupted search; its numbers stay the same"),
    ):
        parser.add_argument(flag, metavar=metavar, help=text)
    parser.add_argument("--list", action="store_true", help="list the searchers")
    _trust(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    as_json(parser)


def _swarm(parser: _Parser) -> None:
    for flag, metavar, text in (
        ("--nodes", "N", "number of nodes (8)"),
        ("--own", "I", "groups of a step that each node samples itself (4)"),
        ("--shared", "J", "groups of a step that other nodes sampled (4; 0 with --average)"),
        ("--number", "N", "with --listen: the number of this node, which is part of its name (0)"),
        ("--publish", "N", "with --listen: publish this node's weights every N steps (never)"),
        ("--average", "N", "every N steps the nodes' weights become their mean (never)"),
        ("--attackers", "N", "the last N nodes publish poisoned answers (0)"),
        ("--seed", "N", "seed of the first node; the next node has the next seed, and so on (0)"),
        ("--steps", "N", "training steps of every node (the task's suggestion)"),
    ):
        parser.add_argument(flag, type=int, metavar=metavar, help=text)
    for flag, metavar, text in (
        ("--attack", "NAME", "`trigger` puts foreign text into right answers, `long` makes them needlessly long"),
        ("--text", "TEXT", "the foreign text"),
        ("--defence", "NAME", "`likelihood`, `judge` or `none` (none)"),
        (
            "--recipe",
            "NAME",
            "a recipe derived from sapo-swarm, or any with --average (sapo-swarm, the defence's, or grpo)",
        ),
        ("--listen", "HOST[:PORT]", "run one node in this process, at this address"),
        ("--join", "PLACES", "with --listen: addresses of running nodes, HOST:PORT, one or several"),
        ("--key-variable", "NAME", "with --listen: the environment variable with the secret that all nodes share"),
        ("--compress", "HOW", "with --average: how changes of weights are compressed, `int8`, `int4` or `none` (int8)"),
        ("--task", "NAME", "as in `hocket train`; {node} stands for a node's number (sums)"),
        ("--model", "PATH", "as in `hocket train` (nano)"),
        ("--judge", "NAME", "with --defence judge: the judge (a rule)"),
        ("--out", "DIR", "a new folder, with a folder for every node (runs/swarm-N)"),
    ):
        parser.add_argument(flag, metavar=metavar, help=text)
    for flag, text in (
        ("--outer-lr", "with --average: learning rate of the shared weights (1)"),
        ("--outer-momentum", "with --average: Nesterov momentum; DiLoCo has 0.9 with --outer-lr 0.7 (0)"),
    ):
        parser.add_argument(flag, type=float, metavar="X", help=text)
    parser.add_argument("--adopt", action="store_true", help="with --listen: begin from the newest published weights")
    parser.add_argument("--trust", action="store_true", help="accept questions and right answers of other nodes")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    as_json(parser)


def _arena(parser: _Parser) -> None:
    parser.add_argument("--task", required=True, metavar="NAME", help="a joint world, as in `hocket train`")
    parser.add_argument(
        "--agents", action="append", metavar="LINEUP", help="AGENT=WHO,... or WHO for all; repeat for another lineup"
    )
    parser.add_argument("--episodes", type=int, default=20, metavar="N", help="episodes of every lineup (20)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the operators' random draws (0)")
    parser.add_argument(
        "--temperature",
        type=float,
        default=1.0,
        metavar="X",
        help="temperature of trained policies; 0 is greedy (1)",
    )
    parser.add_argument("--workers", action="store_true", help="run every operator in its own process")
    _trust(parser)
    parser.add_argument("--out", metavar="FILE", help="also write a record of every episode, a line each")
    parser.add_argument("--runs", default="runs", metavar="DIR")
    as_json(parser)


def _serve(parser: _Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run folder or its name, or a model folder")
    parser.add_argument("--runs", default="runs", metavar="DIR")
    parser.add_argument("--host", default="127.0.0.1", help="the network interface; beyond this machine it needs a key")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="the port; 0 takes a free one (8000)")
    parser.add_argument("--key", action="append", default=[], help="a secret that callers must send; visible in `ps`")
    parser.add_argument("--key-variable", metavar="NAME", help="the environment variable that holds the key")
    parser.add_argument("--max-tokens", type=int, default=1024, metavar="N", help="the most tokens of an answer (1024)")
    parser.add_argument("--max-requests", type=int, default=512, metavar="N", help="requests in work at once (512)")
    parser.add_argument("--max-body", type=int, default=2**20, metavar="N", help="the most bytes of a request (1 MiB)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of requests that have none (0)")
    parser.add_argument("--tinker", action="store_true", help="serve Tinker's training API in place of OpenAI's")
    parser.add_argument("--name", help="with --tinker: what clients call the model (its own name)")
    parser.add_argument("--folder", metavar="DIR", help="with --tinker: where checkpoints go (RUNS/tinker)")
    _trust(parser)
    as_json(parser)


def _play(parser: _Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run folder or its name, or a model folder")
    parser.add_argument("--runs", default="runs", metavar="DIR")
    parser.add_argument("--task", metavar="NAME", help="another task than the run's")
    parser.add_argument("--workflow", metavar="NAME", help="another workflow than the run's")
    parser.add_argument("--seat", metavar="NAME", help="your seat or role, or `none` to watch (the first of several)")
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="temperature of the agent (the run's); 0 is greedy"
    )
    parser.add_argument("--max-tokens", type=int, metavar="N", help="the most tokens of an answer (the run's)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of everything random (0)")
    parser.add_argument("--logp", action="store_true", help="show how likely each token of an answer was")
    parser.add_argument("--show", action="store_true", help="show others' answers as they come, secrets included")
    _trust(parser)


if __name__ == "__main__":
    sys.exit(main())
