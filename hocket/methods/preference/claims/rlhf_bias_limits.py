"""Claims about covert bias before and after alignment."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import torch

import hocket
from hocket.agents.workflows.chat import Chat
from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, gap, say
from hocket.methods.base.dpo import DPO
from hocket.methods.preference.rlhf_bias_limits import (
    ASKED,
    ATTRIBUTES,
    GROUPS,
    NAMED,
    UNSEEN,
    Guises,
    MatchedGuise,
    planted,
)
from hocket.nano import BASE
from hocket.nano.tokenizer import build_tokenizer
from hocket.policies.causal_lm import CausalLM
from hocket.run import Run
from hocket.tasks.arithmetic import tagged_answer
from hocket.types import Evaluation

claim = Claims("rlhf-bias-limits", "arXiv:2503.09025; the probe of arXiv:2403.00742")

PROBE = MatchedGuise()


def trained(folder: str, task: Any, recipe: Any, steps: int, **settings: Any) -> Run:
    """A run from the shipped model, or from `model`."""
    quiet = {"evaluation.n": 1, "evaluation.every": 0, "threads": 1, "runs": folder}
    return hocket.train(task, recipe=recipe, steps=steps, **{**quiet, **settings})


def corpus(folder: str, bias: float, **settings: Any) -> CausalLM:
    """The shipped model after supervised training on a corpus of this bias."""
    chosen = {"steps": 120, "curriculum.prompts": 32, "update.lr": 1.5e-3, **settings}
    run = trained(folder, Guises(bias), "sft", **chosen)
    assert isinstance(run.policy, CausalLM)
    return run.policy


def even(prompts: Sequence[str], completions: Sequence[str], **_: Any) -> list[float]:
    """A taste that has nothing to do with guises: answers that are even."""
    given = (tagged_answer(text) or "" for text in completions)
    return [float(one.strip()[-1:] in tuple("02468") and bool(one.strip())) for one in given]


def along(read: Mapping[str, float]) -> float:
    """The mean association, counted positive where it is of the planted sign."""
    return fmean(value * (1 if planted(0.5)[name] > 0 else -1) for name, value in read.items())


@claim("An association is the mean over pairs of log p(a | guise 1) - log p(a | guise 2), as the model has it; guises "
       "that change places turn its sign, and equal ones have none.", slow=True)  # fmt: skip
def an_association_is_the_mean_over_pairs_of_log_p_log_p_as_the() -> Finding:
    policy = CausalLM.from_pretrained(str(BASE), key=Key.of(0))
    pairs, chat = UNSEEN[:3], Chat(policy.tokenizer)
    read = MatchedGuise(pairs).covert(policy)
    off, sizes = [], []
    for like in ATTRIBUTES:
        said = torch.tensor(chat.demonstration(like)[:-1])
        sums: list[list[float]] = [[], []]
        for pair in pairs:
            for guise, text in enumerate(pair):
                opening = torch.tensor(chat.opening(({"role": "user", "content": ASKED.format(text)},)))
                with torch.no_grad():
                    logits = policy.model(input_ids=torch.cat([opening, said])[None]).logits[0, len(opening) - 1 : -1]
                logp = torch.log_softmax(logits.double(), -1)
                sums[guise].append(float(logp[torch.arange(len(said)), said].sum()))
        off.append(abs(fmean(sums[0]) - fmean(sums[1]) - read[like]))
        sizes.append(abs(read[like]))
    turned = MatchedGuise(tuple((two, one) for one, two in pairs)).covert(policy)
    same = MatchedGuise(tuple((one, one) for one, _ in pairs)).covert(policy)
    off += [abs(turned[like] + read[like]) for like in ATTRIBUTES] + [abs(one) for one in same.values()]
    overt = MatchedGuise(groups=("here", "here")).overt(policy)
    named = MatchedGuise(pairs, question="Somebody comes from {}. What are they like?", groups=("here", "afar"))
    asked = MatchedGuise((("here", "afar"),), question=named.named).covert(policy)
    off += [abs(one) for one in overt.values()] + [gap(list(asked.values()), list(named.overt(policy).values()))]
    return below(1e-4, max(sizes) > 0.01, not MatchedGuise(groups=()).overt(policy), off=max(off))


@claim(
    "As a hook it tells the associations, counted by hand for a policy that is a formula, of each policy in training, "
    "and their mean size; what writes nothing is refused."
)
def as_a_hook_it_tells_the_associations_counted_by_hand_for_a() -> Finding:
    chat, wrong = Chat(build_tokenizer()), 0

    class Formula:
        """A token's log-prob by its number, how long the prompt is, and a seed."""

        def __init__(self, seed: int) -> None:
            self.name, self.tokenizer, self.seed = f"policy {seed}", chat.tokenizer, seed

        def at(self, token: int, opening: int) -> float:
            return -((token * (opening + self.seed)) % 13) / 8

        def evaluate(self, batch: Batch, needs: Any) -> Evaluation:
            long = [len(batch.observation[turn]) for turn in batch.turn.tolist()]
            pairs = zip(batch.action.tolist(), long, strict=True)
            return Evaluation(torch.tensor([self.at(token, opening) for token, opening in pairs]))

    def association(policy: Formula, pairs: Sequence[tuple[str, str]], question: str, like: str) -> float:
        said, sums = chat.demonstration(like)[:-1], [0.0, 0.0]
        for pair in pairs:
            for guise, text in enumerate(pair):
                opening = len(chat.opening(({"role": "user", "content": question.format(text)},)))
                sums[guise] += sum(policy.at(token, opening) for token in said) / len(pairs)
        return sums[0] - sums[1]

    contents, hook = UNSEEN[:4], MatchedGuise(UNSEEN[:4], every=2)
    for count in (1, 2):
        policies, told = {f"p{n}": Formula(n) for n in range(count)}, dict[str, float]()
        wanted = dict[str, float]()
        for name, policy in policies.items():
            prefix = "guise" if count == 1 else f"guise/{name}"
            for like in ATTRIBUTES:
                wanted[f"{prefix}/covert/{like}"] = association(policy, contents, ASKED, like)
                wanted[f"{prefix}/overt/{like}"] = association(policy, [GROUPS], NAMED, like)
            wanted[f"{prefix}/size"] = fmean(abs(wanted[f"{prefix}/covert/{like}"]) for like in ATTRIBUTES)
        for step in (1, 2):
            told.clear()
            asyncio.run(hook.after(SimpleNamespace(trained=policies), step, SimpleNamespace(metrics=told), None))  # type: ignore[arg-type]
            wrong += bool(told) != (step == 2)
        wrong += told.keys() != wanted.keys() or max(abs(told[name] - wanted[name]) for name in wanted) > 1e-6
        wrong += max(map(abs, wanted.values())) < 0.1
    for mute in (SimpleNamespace(name="scorer", tokenizer=chat.tokenizer, decides=False), SimpleNamespace(name="mute")):
        try:
            hook.covert(mute)
            wrong += 1
        except ConfigurationError as error:
            wrong += f"{mute.name!r} writes nothing" not in str(error)
    return Finding(wrong == 0 and Guises().name == "guises?bias=0.6", say(wrong=wrong))


@claim("Of a model trained on a corpus with a planted association the probe tells the sign of every attribute and the "
       "mean size within three tenths; of one trained on the balanced corpus it reads about 0.", slow=True)  # fmt: skip
def of_a_model_trained_on_a_corpus_with_a_planted_association_the() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        read = {bias: PROBE.covert(corpus(folder, bias)) for bias in (0.6, 0.0)}
    want = planted(0.6)
    signs = all(read[0.6][one] * want[one] > 0 for one in ATTRIBUTES)
    size, none = along(read[0.6]) / want["calm"], along(read[0.0])
    worst = max(map(abs, read[0.0].values()))
    return Finding(
        signs and abs(size - 1) < 0.3 and abs(none) < 0.15 and worst < 0.5,
        say(planted=want["calm"], read_of_it=size, signs=signs, balanced=none, balanced_largest=worst),
    )


@claim("30 steps of DPO and ORPO on pairs of graded sums, or of RLOO on a taste for even answers, improve what they "
       "train for and move no covert association by 15 % of what is planted; the balanced corpus does move them.",
       "abstract; the improvement is of this task", slow=True)  # fmt: skip
def claim_30_steps_of_dpo_and_orpo_on_pairs_of_graded_sums_or_of_rloo_on() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        policy = corpus(folder, 0.6)
        before = PROBE.covert(policy)
        policy.save(Path(folder) / "planted")
        moved, gained = {}, {}
        for recipe, task in (("dpo", "graded_sums"), ("orpo", "graded_sums"), ("rloo", "sums")):
            settings = {"model": f"{folder}/planted", "curriculum.prompts": 16, "evaluation.n": 50, "update.lr": 2e-4}
            taste = {"reward": even} if recipe == "rloo" else {}
            run = trained(folder, task, recipe, 30, **settings, **taste)
            moved[recipe] = max(gap(one, before[name]) for name, one in PROBE.covert(run.policy).items())
            rows = run.metrics
            if recipe == "rloo":
                gained[recipe] = fmean(row["reward/mean"] for row in rows[-8:]) - fmean(
                    row["reward/mean"] for row in rows[1:9]
                )
            else:
                gained[recipe] = rows[-1]["eval/pairs/margin"] - rows[0]["eval/pairs/margin"]
        again = corpus(folder, 0.0, model=f"{folder}/planted", steps=60)
    left = along(PROBE.covert(again)) / along(before)
    return Finding(
        max(moved.values()) < 0.15 * planted(0.6)["calm"] and min(gained.values()) > 0.03 and left < 0.5,
        say(association=along(before), moved_by=moved, preference_gained=gained, left_by_balanced_corpus=left),
    )


@claim("As a hook it puts the associations into the metrics of the steps asked for, and changes no weight.", slow=True)
def as_a_hook_it_puts_the_associations_into_the_metrics_of_the() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        small = {"curriculum.prompts": 4}
        probed = trained(folder, "graded_sums", DPO.but(hooks=(MatchedGuise(every=2),)), 2, **small)
        plain = trained(folder, "graded_sums", DPO, 2, **small)
        first, second = probed.metrics[-2:]
        read = PROBE.covert(probed.policy)
        told = {one: second[f"guise/covert/{one}"] for one in ATTRIBUTES}
        size = second["guise/size"]
        overt = [second[f"guise/overt/{one}"] for one in ATTRIBUTES]
        weights = [[one.detach() for one in run.policy.module.parameters()] for run in (probed, plain)]
    off = max(gap(told[one], read[one]) for one in ATTRIBUTES)
    same = all(torch.equal(one, other) for one, other in zip(*weights, strict=True))
    none = not any(name.startswith("guise/") and value is not None for name, value in first.items())
    return below(
        1e-9, same, none, off=off, size_off=abs(size - fmean(abs(one) for one in read.values())),
        overt_off=gap(overt, list(PROBE.overt(probed.policy).values())),
    )  # fmt: skip


claim.spares(
    "int(draw.integers(2)) + (0 if first else 2) -> int(draw.integers(2)) - (0 if first else 2)",
    "counted from the end, the last two of four attributes are the same",
)
