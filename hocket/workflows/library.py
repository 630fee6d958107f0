"""Workflows by name: what `--workflow` and `Recipe.workflow` understand."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from hocket.components import load_object
from hocket.errors import ConfigurationError, nearest
from hocket.tasks.options import checked, parse_name
from hocket.workflows.outside import OutsideAgent
from hocket.workflows.workflow import Workflow


@dataclass(frozen=True)
class Named:
    """A line of the library: the class `module:name` and what it plays, in a line."""

    where: str
    description: str

    def load(self) -> type[Workflow]:
        module, _, name = self.where.partition(":")
        return cast(type[Workflow], getattr(importlib.import_module(f"hocket.workflows.{module}"), name))


LIBRARY: Mapping[str, Named] = {
    "single": Named("single:SingleTurn", "one policy answers once"),
    "simulated-user": Named(
        "simulated_user:SimulatedUser", "an agent serves a user, e.g. simulated-user?desk=order_desk"
    ),
    "tool-use": Named("tool_use:ToolUse", "one policy that may call tools, e.g. tool-use?tools_of=calculator,python"),
    "planner-worker": Named("planner_worker:PlannerWorker", "a planner splits the problem, workers do a step each"),
    "debate": Named("debate:DebateVote", "several answer, read each other and vote"),
    "pioneer-observer": Named("pioneer_observer:PioneerObserver", "a second answer after reading the first (CORY)"),
    "agentflow": Named("agentflow:InTheFlow", "a planner steers executor, verifier and generator by a memory"),
    "leader-peers": Named("leader_peers:LeaderPeers", "a leader reads its peers' answers and answers (MLPO)"),
    "meta-reasoner": Named("meta_reasoner:MetaReasoner", "one advises, the other carries out (ReMA)"),
    "feedback": Named("feedback:ConversationFeedback", "a critic passes an answer or has it revised (WaltzRL)"),
    "public-goods": Named("public_goods:PublicGoods", "agents answer in turn, paid for effort together (MAC-SPGG)"),
    "crowd-vote": Named("crowd_vote:CrowdVote", "several answer alone, the most frequent answer counts (RLCCF)"),
    "coach-player": Named("coach_player:CoachPlayer", "one writes problems from which another learns (CPMobius)"),
    "two-halves": Named("two_halves:TwoHalves", "two who hold half of the facts each talk (Optima)"),
    "split-map": Named("split_map:SplitMap", "two with half of a map each agree on a route, e.g. split-map?relay=2"),
    "one-night": Named("one_night:OneNight", "one claims to be the seer, the other believes it or not (LSPO)"),
    "built-team": Named("built_team:BuiltTeam", "a controller builds a graph of agents, which answers (MasHost)"),
    "advised": Named("advised:Advised", "an adviser beside any workflow, e.g. advised?inner=simulated-user (EPO, MPO)"),
    "pipeline": Named("pipeline:Pipeline", "each in turn reads all that was said; the last answers"),
}


def find(name: str) -> Workflow:
    """The workflow called `name`, a name of the library or `FILE.py:NAME`; `NAME?key=value&..` sets its fields.

    `outside:FILE.py:FUNCTION` and `outside:COMMAND` are agents written elsewhere.

    Raises:
        ConfigurationError: for an unknown name, with the nearest, or settings it does not have.
    """
    if name.strip().startswith("outside:"):
        return OutsideAgent.named(name.strip().removeprefix("outside:"))
    base, settings = parse_name(name.strip(), "workflow")
    if base.endswith(".py"):
        raise ConfigurationError(f"workflow {base!r} names a file alone; write {base}:NAME for a workflow in it")
    if ".py:" in base or (base not in LIBRARY and ":" in base):
        found: Any = load_object(base, "workflow")
    elif base in LIBRARY:
        found = LIBRARY[base].load()
    else:
        raise ConfigurationError(f"there is no workflow {base!r}{nearest(base, LIBRARY)}; a file is FILE.py:NAME")
    if not inspect.isclass(found):
        if settings:
            raise ConfigurationError(f"workflow {base} is an object already, so it takes no settings")
        return checked_workflow(found, base)
    if not issubclass(found, Workflow):
        raise ConfigurationError(
            f"workflow {base} is no Workflow; write class {found.__name__}(hocket.workflows.Workflow)"
        )
    if inspect.isabstract(found):
        raise ConfigurationError(f"workflow {base} does not say how it is played; write async def play(...) in it")
    hints = {name: _kind(parameter) for name, parameter in inspect.signature(found).parameters.items()}
    values = checked(base, settings, hints, kind="workflow")
    try:
        return checked_workflow(found(**values), base)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"workflow {base}: {error}") from error


def checked_workflow(found: Any, name: str) -> Workflow:
    """A workflow whose members are what they should be.

    Raises:
        ConfigurationError: naming the first that is not.
    """
    if not isinstance(found, Workflow):
        raise ConfigurationError(f"workflow {name} is a {type(found).__name__}, not a hocket.workflows.Workflow")
    roles: Any = found.roles
    if isinstance(roles, str) or not roles or not all(isinstance(role, str) for role in roles):
        raise ConfigurationError(f"workflow {name}: roles = {roles!r}; write a tuple of names, such as ('solver',)")
    if not inspect.iscoroutinefunction(inspect.unwrap(found.play)):
        raise ConfigurationError(f"workflow {name}: play is no coroutine; write async def play(...)")
    for part in ("prompts", "tools"):
        strange = next((role for role in getattr(found, part) if role not in roles), None)
        if strange is not None:
            raise ConfigurationError(
                f"workflow {name}: {part} has no role {strange!r} to go to{nearest(strange, roles)}"
            )
    return found


def settings_of(found: type[Workflow]) -> dict[str, Any]:
    """What a workflow's name can set, with defaults: its arguments that are plain."""
    known = {name: parameter.default for name, parameter in inspect.signature(found).parameters.items()}
    return {name: default for name, default in known.items() if default is None or type(default) in PLAIN}


PLAIN = (int, float, bool, str)


def _kind(parameter: inspect.Parameter) -> type:
    """What a setting takes from text, by its default."""
    kind = type(parameter.default)
    return kind if kind in PLAIN else str
