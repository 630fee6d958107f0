"""Vision-language-action models on large VLMs: monolithic and hierarchical, a survey (arXiv:2508.13073).

A monolithic model maps pictures and instructions to actions, as one system or as two that share states; a hierarchical
one separates planning from execution by something readable in between. The library has both as policies: one sequence
of decisions, and planner and actor that are credited apart. Pixels are drawings of a few shapes here, and there is no
robot: worlds are mazes, discs and point masses, and others come through `hocket.agents.environments`.
"""

from __future__ import annotations

from hocket.core.surveys import Axis, Cell, FieldSurvey, Gap, is_a, kind, mentions, row, rows

VLA_SURVEY = FieldSurvey(
    name="vla-survey",
    title="Large VLM-based Vision-Language-Action Models for Robotic Manipulation: A Survey",
    source="arXiv:2508.13073",
    witness="both families take a training step on one maze as shipped: in one sequence all decisions of an episode "
    "have one advantage, and planner and actor have advantages of their own",
    axes=(
        Axis(
            "architecture",
            "Whether planning is apart from execution.",
            (
                Cell(
                    "single-system", "one sequence, from what is seen to actions", rows("gigpo", "craft-gui", "sc2le")
                ),
                Cell(
                    "dual-system",
                    "a slow model's states steer a fast policy",
                    Gap("no policy reads another's states", until=mentions("dual-system")),
                ),
                Cell(
                    "planner-only", "a planner for an actor that is not trained", rows("mpo-meta-plan", "epo-explicit")
                ),
                Cell("planner-and-policy", "both are policies", rows("hi-agent", "samalm", "read-advantage-feedback")),
            ),
        ),
        Axis(
            "intermediate",
            "What stands between plan and action.",
            (
                Cell("subtask", "a subgoal in words", row("hi-agent")),
                Cell("program", "code or a skill by name", row("compass-smac")),
                Cell("plan", "a plan that several follow", row("capo-coop-plan")),
                Cell(
                    "keypoint",
                    "points in the picture to be reached",
                    Gap("no actor follows points", until=mentions("keypoint")),
                ),
            ),
        ),
        Axis(
            "actions",
            "How actions are written.",
            (
                Cell("tokens", "one after the other", rows("sc2le", "gigpo", "craft-gui")),
                Cell("denoised", "by diffusion", row("dppo")),
            ),
        ),
        Axis(
            "integration",
            "What such models are combined with.",
            (
                Cell("rl", "rewards of episodes and steps", rows("gigpo", "dppo", "craft-gui", "arpo-gui")),
                Cell("training-free", "prompts and experience", kind("searcher") | row("training-free-grpo")),
                Cell("human-in-the-loop", "interventions are learnt from", row("sirius")),
                Cell(
                    "human-video",
                    "people are watched",
                    Gap("there is no recording of people", until=mentions("human video")),
                ),
                Cell(
                    "world-model",
                    "a model of the world is learnt besides",
                    rows("offline-mbrl-design-choices", "mapo-lso"),
                ),
            ),
        ),
        Axis(
            "direction",
            "Where it is to go.",
            (
                Cell("memory", "what was seen before", rows("transformers-in-rl-survey", "contrabar")),
                Cell("space-time", "perception in space and time", Gap("scenes are flat", until=mentions("depth map"))),
                Cell("adaptation", "a new task from little", rows("mbtl", "l2rlcf")),
                Cell("several-agents", "robots that work together", rows("samalm", "capo-coop-plan")),
            ),
        ),
        Axis(
            "interface",
            "What is an interface alone here.",
            (
                Cell("pixels", "pictures: drawn digits, shapes and buttons", rows("mm-eureka", "uav-vl-r1", "lpo-gui")),
                Cell(
                    "robot",
                    "arms and grippers",
                    Gap("no robot is simulated; bring one as an environment", until=mentions("robot arm")),
                ),
            ),
        ),
    ),
    named=(
        Cell("imitation", "likelihood of recorded actions", is_a("bc")),
        Cell("PPO", "the usual optimiser online", is_a("ppo")),
        Cell("GRPO", "groups of episodes", is_a("grpo")),
        Cell("DPO", "comparisons of trajectories", is_a("dpo")),
        Cell("diffusion policy", "actions by denoising", row("dppo")),
    ),
)
