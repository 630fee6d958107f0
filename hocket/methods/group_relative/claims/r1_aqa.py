"""R1-AQA's claims."""

from __future__ import annotations

from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.pictured_runs import AnswerLabels, PicturedRun
from hocket.lab.toys.recorded_answers import advantages, answer, group_relative, lines, shaped
from hocket.methods.base.sft import SFT
from hocket.methods.group_relative.r1_aqa import R1_AQA
from hocket.tasks.tones import Tones

claim = Claims("r1-aqa", "arXiv:2503.11197")

DIRECT, WORKED = "<answer>B</answer>", "<think>do so</think><answer>B</answer>"


@claim("The reward is the right answer and a point for one answer in tags, with a thought or without.")
def the_reward_is_the_right_option_and_a_point_for_the_tags() -> Finding:
    texts = (DIRECT, WORKED, "<think></think><answer>B</answer>", "B", "", f"{DIRECT}<answer>A</answer>")
    rows = [answer(verdict, 2, text=text, logp_ref=[-1.0, -1.0]) for text in texts for verdict in (0.0, 1.0)]
    wanted = [verdict + float(place < 3) for place in range(len(texts)) for verdict in (0.0, 1.0)]
    off = max(gap(shaped(R1_AQA, rows), wanted), gap(advantages(R1_AQA, rows), group_relative(wanted)))
    return Finding(off < EXACT and R1_AQA.regularisers[0].coefficient == 0.04, say(off=off))  # type: ignore[attr-defined]


@claim("Asked for a thought, an answer at once earns no point for its tags.")
def asked_for_a_thought_an_answer_at_once_earns_no_point() -> Finding:
    recipe = R1_AQA.but(**{"shaping.0.thought": "filled"})
    rows = [answer(1.0, 2, text=text, logp_ref=[-1.0, -1.0]) for text in (DIRECT, WORKED)]
    return Finding(shaped(recipe, rows) == [1.0, 2.0], say(rewards=str(shaped(recipe, rows))))


@claim(
    "As shipped it gains on unheard melodies, and supervised fine-tuning on equal labels from the same checkpoint "
    "gains more, against the paper; with silence it stays near the commonest note.",
    slow=True,
    learns=True,
)
def it_gains_less_than_supervised_fine_tuning() -> Finding:
    steps, n, model = 20, 100, "nano-audio"
    run = PicturedRun.of(R1_AQA, "tones?kinds=highest", model=model)
    before = run.measured(n).success
    after, silent = run.train(steps).measured(n).success, run.blind(n).success
    settings = {"curriculum.prompts": 16, "update.lr": 3e-4, "model": model}
    labels = AnswerLabels(Tones(["highest"]))
    taught = PicturedRun.of(SFT, labels, **settings).train(steps).measured(n).success
    recipe = R1_AQA.but(**{"shaping.0.thought": "filled"})
    thinking = PicturedRun.of(recipe, "tones?kinds=highest", model=model).train(steps).measured(n).success
    holds = after > before + 0.1 and taught > after and silent < 0.5
    figures = lines(before=before, after_rl=after, after_sft=taught, asked_for_a_thought=thinking, silence=silent)
    return Finding(holds, figures)


claim.shipped(R1_AQA, "shaping", settings={"model": "nano-audio"})
