"""Foundation models and RL for robots: a survey of how the two are joined (arXiv:2410.16411).

Foundation models plan actions, are made for robots, are tuned by RL, or give RL its rewards, representations and models
of the world. The taxonomy is over four classes: language, vision-language, diffusion, and transformers trained by RL.
The small counterparts here have a million weights or fewer, and robots are point masses, discs and agents in words.
"""

from __future__ import annotations

from hocket.core.surveys import Axis, Cell, FieldSurvey, Gap, is_a, mentions, row, rows

_LANGUAGE = rows("samalm", "capo-coop-plan", "read-advantage-feedback")
_SEEING = rows("uav-vl-r1", "mm-eureka", "craft-gui")
_SEQUENCE = is_a("decision-transformer") | is_a("ppo-attention")

RL_FM_ROBOTICS_SURVEY = FieldSurvey(
    name="rl-fm-robotics-survey",
    title="Integrating Reinforcement Learning with Foundation Models for Autonomous Robotics: Methods and Perspectives",
    source="arXiv:2410.16411",
    witness="small counterparts of three of its four classes take a training step as shipped; language needs lessons",
    axes=(
        Axis(
            "model",
            "The class of the model.",
            (
                Cell("language", "large language models", _LANGUAGE),
                Cell("vision-language", "models of pictures and words", _SEEING),
                Cell("diffusion", "samplers that denoise actions", row("dppo")),
                Cell("transformer-rl", "transformers trained by RL or on its trajectories", _SEQUENCE),
            ),
        ),
        Axis(
            "integration",
            "What joins the two.",
            (
                Cell("planner", "the foundation model plans, others act", _LANGUAGE),
                Cell(
                    "robot-model",
                    "a foundation model of many robots",
                    Gap("controllers are trained for one world each", until=mentions("many robots")),
                ),
                Cell("tuned-by-rl", "RL tunes a pretrained model", row("dppo") | _SEEING),
                Cell("reward", "the model gives rewards or judges", rows("samalm", "prism-3d-pbrl", "lca")),
                Cell(
                    "representation",
                    "RL reads the model's states",
                    Gap("no controller reads a pretrained model", until=mentions("pretrained representation")),
                ),
                Cell(
                    "world-model",
                    "RL is trained in what the model predicts",
                    Gap(
                        "models of worlds are small networks fitted to the one task",
                        until=mentions("pretrained world model"),
                    ),
                ),
                Cell("fitted-model", "of these, models fitted to the task", row("offline-mbrl-design-choices")),
            ),
        ),
    ),
    named=(
        Cell("PPO", "the usual optimiser", is_a("ppo")),
        Cell("SAC", "off-policy control", is_a("sac")),
        Cell("behaviour cloning", "policies from demonstrations", is_a("bc")),
        Cell("Decision Transformer", "actions given returns", is_a("decision-transformer")),
        Cell("diffusion policy", "actions by denoising", row("dppo")),
        Cell("RLHF", "preferences of people", is_a("ppo-rlhf")),
    ),
)
