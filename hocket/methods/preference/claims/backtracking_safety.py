"""Backtracking's claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hocket.core.columns import ANSWER
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import below, cases, gap, inspect_rows, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.recorded_answers import document
from hocket.methods.base.sft import SFT
from hocket.methods.preference.backtracking_safety import (
    BACKTRACKING_SAFETY,
    ERASED,
    SIGNALS,
    Backtracking,
    SafeWords,
    StandingAlone,
    erased,
    violations,
    visible,
)
from hocket.recipe import Recipe
from hocket.testing import rehearse
from hocket.types import Evaluation, Scenario

claim = Claims("backtracking-safety", "Sel et al., 2025; signal and mask chosen here")

# ---------------------------------------------------------------- what is visible, what is learnt


@claim("A signal removes the last n visible words, what was written before it stays, and a reset removes everything.")
def a_signal_removes_the_last_n_visible_words_what_was_written() -> Finding:
    shown = {
        "a b <undo 1>c": "a c",
        "a b c <undo 2>d": "a d",
        "a b <undo 9>c": "c",
        "a b <undo all>c": "c",
        "a b <undo 0>c": "a b c",
        "a b <undo 1>c <undo 2>d": "d",
        "a b <undo 1><undo 1>c": "c",
        "<undo 1>a": "a",
        "a <undo x>b <undo 12345>": "a <undo x>b <undo 12345>",
        "a bc<undo 1>d": "a d",
    }
    anew = visible("a b <undo 1>c d <undo 1>e", reset=True) == "e"
    found = cases(shown.items(), lambda text, wanted: visible(text) == wanted)
    return Finding(found.holds and anew, f"{found.saw}, reset {anew}")


@claim("Without a signal every text is visible as it is, its loss is SFT's, and every token is learnt.")
def without_a_signal_every_text_is_visible_as_it_is_its_loss_is() -> Finding:
    rng, gaps = Key.of(0).numpy(), []
    for _ in range(10):
        rows = [_row(["a ", "b ", "c "][: int(rng.integers(1, 4))], rng) for _ in range(3)]
        ours, theirs = (inspect_rows(recipe, rows)["gradient"] for recipe in (BACKTRACKING_SAFETY, SFT))
        gaps.append(gap(ours, theirs))
    return below(1e-12, visible("a  b\nc") == "a  b\nc", off=max(gaps))


@claim("Tokens of which nothing stands get weight 0; a signal's, and those that hold some of it, are learnt.")
def tokens_of_which_nothing_stands_get_weight_0_a_signals_and_those() -> Finding:
    wanted = {
        ("a ", "b ", "<undo 1>", "c"): [0, 1, 0, 0],
        ("a", " b", " <un", "do 1", ">c"): [0, 1, 0, 0, 0],
        ("a ", "b", "c ", "d ", "<undo 2>", "e"): [0, 1, 1, 1, 0, 0],
        ("a ", "b ", "<undo 1>", "c ", "<undo 2>", "d"): [1, 1, 0, 1, 0, 0],
        ("a ", "", "b ", "<undo all>", ""): [1, 0, 1, 0, 0],
        ("a ", "b ", "<undo 1>", "c ", "d ", "e ", "<undo 1>", "f"): [0, 1, 0, 0, 0, 1, 0, 0],
    }
    rng, gaps, right = Key.of(1).numpy(), [], True
    for texts, gone in wanted.items():
        right &= erased(texts) == [bool(one) for one in gone]
        row = _row(list(texts), rng)
        found = inspect_rows(BACKTRACKING_SAFETY, [row])
        gaps.append(gap(found["gradient"], [[-(1 - one) / gone.count(0) for one in gone]]))
        gaps.append(gap(found["advantages"], [[1 - one for one in gone]]))
    return below(1e-12, right, off=max(gaps))


def _row(texts: Sequence[str], rng: np.random.Generator) -> dict[str, Any]:
    logp = (-rng.exponential(size=len(texts)) - 0.01).tolist()
    return {"group": "g", "scores": {"reward": 0.0}, "logp": logp, "info": {"pieces": list(texts)}}


@claim("Played, the visible text is the answer that is judged; what was written is recorded whole.")
def played_the_visible_text_is_the_answer_that_is_judged_what_was() -> Finding:
    said = "sun sea <undo 1>red fish"
    (one,) = rehearse(Backtracking(), Scenario("s", "Write."), {"policy": [said]})
    (anew,) = rehearse(Backtracking(reset=True), Scenario("s", "Write."), {"policy": [said]})
    kept = one.answer == "sun red fish" and one.text == said and anew.answer == "red fish"
    counted = (SIGNALS.get(one), ERASED.get(one), ERASED.get(anew)) == (1, 4, 8)
    return Finding(kept and counted and ANSWER.get(one) == one.answer, f"{one.answer!r} of {one.text!r}")


@claim("The task's demonstrations are safe where visible and unsafe where not, and the question names what is unsafe.")
def the_tasks_demonstrations_are_safe_where_visible_and_unsafe() -> Finding:
    task, slips = SafeWords(), list[int]()

    def safe(scenario: Scenario) -> bool:
        shown, pairs = scenario.metadata["demonstration"], scenario.metadata["unsafe"]
        bare, named = shown.replace("<undo 1>", ""), all(" ".join(pair) in str(scenario.prompt) for pair in pairs)
        slips.append(shown.count("<undo 1>"))
        unsafe = violations(bare.split(), pairs) >= slips[-1] and (
            "<undo" not in shown or not task.verify(bare, scenario)
        )
        return named and unsafe and task.verify(visible(shown), scenario) == 1.0

    found = cases((task.scenario("train", number) for number in range(60)), safe)
    return Finding(found.holds and sum(slips) > 20, f"{found.saw}, {sum(slips)} slips")


@claim("The workflow that takes back ships with it, and a text may have twelve tokens a word, at most 400.")
def the_workflow_that_takes_back_ships_with_it_and_a_text_may_have() -> Finding:
    shipped = BACKTRACKING_SAFETY.workflow == "backtracking" and BACKTRACKING_SAFETY.credit == StandingAlone()
    most = [SafeWords(length=n).suggest(BACKTRACKING_SAFETY)["decoding.max_tokens"] for n in (2, 12, 60)]
    return Finding(shipped and most == [24, 144, 400], say(tokens=most))


# ---------------------------------------------------------------- long texts over a small grammar

V, LENGTH = 6, 30
UNDO, START = V, V
BANNED = {0: 1, 2: 3, 4: 5}
"""Which word may not stand so many places after which."""

TOKENS = (*(f"{letter} " for letter in "abcdef"), "<undo 1>")


@dataclass
class Text:
    """A text as it is written: tokens, the contexts that they were drawn in, and what is visible.

    Which word comes next depends on the last alone. So a violation `apart` places apart cannot be foreseen if that is
    2, and can if it is 1; once it is there it shows.
    """

    apart: int = 2
    seen: list[int] = field(default_factory=list)
    removed: int | None = None
    tokens: list[int] = field(default_factory=list)
    contexts: list[int] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        """Whether the last visible word violates."""
        return len(self.seen) > self.apart and BANNED.get(self.seen[-1 - self.apart]) == self.seen[-1]

    @property
    def worse(self) -> int | None:
        """The word that would violate."""
        return BANNED.get(self.seen[-self.apart]) if len(self.seen) >= self.apart else None

    def context(self) -> int:
        """By the last visible word, and whether it violates or what was taken back after it."""
        last = self.seen[-1] if self.seen else START
        if self.removed is not None:
            return 2 * (V + 1) + last * V + self.removed
        return last + (V + 1) * self.bad

    def write(self, token: int, reset: bool = False) -> None:
        """One more token, a signal included."""
        self.contexts.append(self.context())
        self.tokens.append(token)
        self.removed = None
        if token != UNDO:
            self.seen.append(token)
        elif reset:
            self.seen = []
        elif self.seen:
            self.removed = self.seen.pop()

    def faults(self) -> int:
        """Violations that are visible."""
        return sum(BANNED.get(one) == other for one, other in zip(self.seen, self.seen[self.apart :], strict=False))


CONTEXTS = 2 * (V + 1) + (V + 1) * V


def grammar(seed: int) -> Tensor:
    """Log-probs `[CONTEXTS, V + 1]` of a policy that knows words and no signal: every context goes by the last word."""
    rng = Key.of(seed).derive("grammar").numpy()
    rows = torch.from_numpy(rng.dirichlet(np.full(V, 3.0), size=V + 1))
    words = torch.cat([0.999 * rows, torch.full((V + 1, 1), 0.001)], 1)
    last = [*range(V + 1), *range(V + 1), *(one for one in range(V + 1) for _ in range(V))]
    return words[last].log()


def told(table: Tensor, rng: np.random.Generator, *, signals: bool = True, reset: bool = False, apart: int = 2) -> Text:
    """A text of `LENGTH` visible words, or of 20 times as many tokens; without `signals` none is drawn."""
    chances, text = table.exp().numpy(), Text(apart)
    while len(text.seen) < LENGTH and len(text.tokens) < 20 * LENGTH:
        row = chances[text.context()][: V + signals]
        text.write(min(int((row.cumsum() < rng.random() * row.sum()).sum()), len(row) - 1), reset)
    return text


def corrected(table: Tensor, rng: np.random.Generator, slips: float, apart: int = 2) -> Text:
    """A demonstration: what violates is taken back and written anew; some violations are planted."""
    chances, text = table.exp().numpy(), Text(apart)
    while len(text.seen) < LENGTH:
        worse = text.worse
        row = chances[text.context()][:V].copy()
        if text.removed is not None and worse is not None:
            row[worse] = 0.0
        planted = worse is not None and text.removed is None and rng.random() < slips
        drawn = int((row.cumsum() < rng.random() * row.sum()).sum())
        text.write(worse if planted and worse is not None else min(drawn, V - 1))
        if text.bad:
            text.write(UNDO)
    return text


def imitated(recipe: Recipe, start: Tensor, texts: Sequence[Text]) -> Tensor:
    """The table that minimises the recipe's loss on these texts, from `start`."""
    rows = [
        {"group": "g", "scores": {"reward": 0.0}, "logp": [-1.0] * len(one.tokens), "tokens": one.tokens}
        | {"info": {"pieces": [TOKENS[token] for token in one.tokens]}}
        for one in texts
    ]
    batch, _ = recipe.compute_credit(RecordedBatch(document(rows)).batch, recipe.init(), {})
    contexts = torch.tensor([place for one in texts for place in one.contexts])
    tokens = torch.tensor([token for one in texts for token in one.tokens])
    logits = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([logits], lr=0.1)
    for _ in range(150):
        optimiser.zero_grad()
        logp = torch.log_softmax(logits, -1)[contexts, tokens]
        torch.stack([term.total() for term in recipe.loss(Evaluation(logp), batch)]).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return torch.log_softmax(logits.detach(), -1)


def likelihood(table: Tensor, texts: Sequence[Text]) -> float:
    """Nats per token."""
    return fmean(float(table[one.contexts, one.tokens].mean()) for one in texts)


def faults(texts: Sequence[Text]) -> float:
    """Visible violations per visible word."""
    return sum(one.faults() for one in texts) / sum(len(one.seen) for one in texts)


def overhead(texts: Sequence[Text]) -> float:
    """Tokens written for every visible word, less that one."""
    return sum(len(one.tokens) for one in texts) / sum(len(one.seen) for one in texts) - 1


@claim(
    "In long texts violations fall by an order of magnitude, at under a third of the tokens that a reset costs, and "
    "texts without a violation stay as likely.",
    slow=True,
)
def in_long_texts_violations_fall_by_an_order_of_magnitude_at_under() -> Finding:
    before, after, cost, anew, loss = (list[float]() for _ in range(5))
    for seed in range(4):
        rng, start = Key.of(seed).derive("texts").numpy(), grammar(seed)
        taught = imitated(BACKTRACKING_SAFETY, start, [corrected(start, rng, 0.0) for _ in range(250)])
        plain = [told(start, rng, signals=False) for _ in range(200)]
        undone = [told(taught, rng) for _ in range(200)]
        reset = [told(taught, rng, reset=True) for _ in range(60)]
        benign = [one for one in (told(start, rng, signals=False) for _ in range(400)) if one.faults() == 0]
        before.append(faults(plain))
        after.append(faults(undone))
        cost.append(overhead(undone))
        anew.append(overhead(reset))
        loss.append(likelihood(start, benign) - likelihood(taught, benign))
    holds = all(10 * new <= old for old, new in zip(before, after, strict=True))
    cheap = all(3 * mine < theirs for mine, theirs in zip(cost, anew, strict=True))
    figures = say(before=before, after=after, overhead=cost, by_reset=anew, nats_lost=loss)
    return Finding(holds and cheap and max(loss) < 0.02, figures)


@claim(
    "Where demonstrations are full of slips that could be foreseen, imitating the slips too makes the policy slip half "
    "as often again as before or more; under the mask it learns to slip less.",
    slow=True,
)
def where_demonstrations_are_full_of_slips_that_could_be_foreseen() -> Finding:
    rates: dict[str, list[float]] = {"before": [], "masked": [], "imitated": []}
    for seed in range(10, 14):  # Others than those with which the share was set.
        rng, start = Key.of(seed).derive("slips").numpy(), grammar(seed)
        shown = [corrected(start, rng, 0.5, apart=1) for _ in range(150)]
        learnt = {recipe.name: imitated(recipe, start, shown) for recipe in (BACKTRACKING_SAFETY, SFT)}
        for name, table in zip(rates, (start, learnt["backtracking-safety"], learnt["sft"]), strict=True):
            rates[name].append(faults([told(table, rng, signals=False, apart=1) for _ in range(100)]))
    every = list(zip(rates["before"], rates["masked"], rates["imitated"], strict=True))
    return Finding(
        all(3 * masked < before and imitated > 1.5 * before for before, masked, imitated in every), say(**rates)
    )


claim.shipped(BACKTRACKING_SAFETY, "credit")
