"""Adaptability in multi-agent RL: does what was learnt stand a change of the world? (arXiv:2507.10142).

The review sorts methods by three dimensions: whether a scheme learns in other settings, whether a policy that was
trained in one works in another, and what kind of change the setting shows. A recipe states the changes that its policy
is meant to stand (`survives`); `hocket eval RUN --task SHIFTED --beside RUN2` measures what it loses to a policy that
was trained on the shifted task, with an interval.
"""

from __future__ import annotations

from hocket.core.surveys import Axis, Cell, FieldSurvey, Gap, is_a, mentions, requires, row, rows, survives, uses

MARL_ADAPTABILITY_SURVEY = FieldSurvey(
    name="marl-adaptability-survey",
    title="Adaptability in Multi-Agent Reinforcement Learning: A Framework and Unified Review",
    source="arXiv:2507.10142",
    witness="`hocket eval RUN --task SHIFTED --beside RUN2` gives the drop under each of the four changes, with an "
    "interval that covers the true one",
    axes=(
        Axis(
            "shift",
            "Scenario-driven adaptability: the change between training and use that a recipe states it stands.",
            (
                Cell("agent-count", "more or fewer agents", survives("agent count")),
                Cell("goals", "other tasks or rewards", survives("goals")),
                Cell("dynamics", "other effects of the same actions", survives("dynamics")),
                Cell("partners", "others who act differently", survives("partners")),
            ),
        ),
        Axis(
            "policy",
            "Policy adaptability: how a trained policy comes to fit another setting.",
            (
                Cell(
                    "zero-shot",
                    "it generalises as it is",
                    survives("agent count") | is_a("multi-agent-mdp-homomorphic-networks"),
                ),
                Cell(
                    "run-time",
                    "it infers at run time what is different",
                    rows("clam-agent-modelling", "contrabar", "bardec-pomdp"),
                ),
                Cell("transfer", "it is trained on from weights of another task", rows("l2rlcf", "mbtl")),
                Cell(
                    "robust", "it was trained against the worst change", rows("bardec-pomdp", "black-box-marl-attacks")
                ),
            ),
        ),
        Axis(
            "learning",
            "Learning adaptability: what the training scheme can handle.",
            (
                Cell("shared", "any number of agents share weights", is_a("ippo") | is_a("mappo")),
                Cell("heterogeneous", "agents differ, each with weights of its own", uses("Separate") | is_a("happo")),
                Cell(
                    "self-play",
                    "opponents are past or present selves",
                    rows("mars-self-play", "pytag") | is_a("past-selves"),
                ),
                Cell("communication", "agents send messages", row("hammer") | row("llm4mac")),
                Cell(
                    "decentralised",
                    "no part sees all agents, in training either",
                    row("decentralized-policy-optimization"),
                ),
                Cell(
                    "population",
                    "a population of partners",
                    Gap("one partner at a time is drawn of scripts", until=mentions("population of partners")),
                ),
            ),
        ),
    ),
    named=(
        Cell("IPPO", "independent learners", is_a("ippo")),
        Cell("MAPPO", "a critic of the joint state", is_a("mappo")),
        Cell("HAPPO", "agents in turn", is_a("happo")),
        Cell("QMIX", "values of actions, mixed monotonically", is_a("qmix")),
        Cell("MADDPG", "a critic of joint actions", is_a("maddpg")),
        Cell("teams of any kind", "recipes for several agents", requires("several agents")),
    ),
)
