"""The claims of reflective memory management."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import numpy as np

from hocket.agents.search.searcher import CaseResult, SearchBench
from hocket.agents.tools.recall import called_up, reranked, vectors
from hocket.core import subsets
from hocket.core.keys import Key
from hocket.core.texts import Recall, Texts, problem
from hocket.lab.claims import prompt_checks
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, say
from hocket.lab.texts_worlds import searched
from hocket.methods.agents.rmm import RMM, Learning, ReflectiveMemory, Reranker, cited, prospect, reward
from hocket.zoo.tasks.conventions import Conventions

claim = Claims("rmm", "arXiv:2503.08026, the formula as recalled in the catalogue")

# ---------------------------------------------------------------- the formula


def random_reranker(number: int, size: int = 5, memories: int = 5) -> tuple[Reranker, np.ndarray, np.ndarray]:
    """Weights, a question and memories that are drawn."""
    rng = Key.of(number).derive("rmm").numpy()
    made = Reranker(0.3 * rng.normal(size=(size, size)), 0.3 * rng.normal(size=(size, size)), 0.5)
    return made, rng.normal(size=size), rng.normal(size=(memories, size))


def by_hand(made: Reranker, question: np.ndarray, memories: np.ndarray) -> list[float]:
    """(q + W_q q)^T (m + W_m m) / temperature, number by number."""
    size = range(len(question))
    asked = [question[i] + sum(made.query[i, j] * question[j] for j in size) for i in size]
    return [
        sum(asked[i] * (m[i] + sum(made.memory[i, j] * m[j] for j in size)) for i in size) / made.temperature
        for m in memories
    ]


def one_by_one(scores: Sequence[float], chosen: Sequence[int]) -> float:
    """The chance that a set is drawn without replacement, summed over its orders."""
    total = 0.0
    for order in itertools.permutations(chosen):
        left, chance = list(range(len(scores))), 1.0
        for place in order:
            chance *= math.exp(scores[place]) / math.fsum(math.exp(scores[one]) for one in left)
            left.remove(place)
        total += chance
    return total


@claim("The log-prob of a Gumbel top-k draw is that of drawing one by one without replacement, in any order, exactly.")
def the_log_prob_of_a_gumbel_top_k_draw_is_that_of_drawing_one_by() -> Finding:
    worst, apart = 0.0, 0.0
    for number in range(6):
        made, question, memories = random_reranker(number)
        scores = by_hand(made, question, memories)
        worst = max(worst, float(np.abs(made.scores(question, memories) - scores).max()))
        for chosen in itertools.combinations(range(5), 2 + number % 2):
            told = subsets.logp(made.scores(question, memories), chosen)
            apart = max(apart, abs(told - math.log(one_by_one(scores, chosen))))
    made, question, memories = random_reranker(7)
    likely = made.scores(question, memories)
    drawn = Counter(frozenset(subsets.drawn(likely, 2, Key.of(0).derive(n))) for n in range(20_000))
    often = max(
        abs(drawn[frozenset(one)] / 20_000 - one_by_one(likely.tolist(), one))
        for one in itertools.combinations(range(5), 2)
    )
    return Finding(max(worst, apart) < 1e-10 and often < 0.012, say(scores=worst, log_probs=apart, frequencies=often))


@claim("An answer moves phi by eta (R - b) grad log P_phi(M_K | q, M_N), W_q and W_m both; b is the mean of R before.")
def an_answer_moves_phi_by_eta_grad_log_p_phi_w_q_and_w_m_both_b_is() -> Finding:
    worst = 0.0
    for number in range(4):
        made, question, memories = random_reranker(number)
        before, chosen, step = (1.0, -1 / 3, -1.0), (3, 0, 2), 1e-6
        after = Learning(made, before).after(question, memories, chosen, 1 / 3, 0.1)
        for name in ("query", "memory"):
            for place in itertools.product(range(5), range(5)):
                told = []
                for sign in (1, -1):
                    weights = {"query": made.query.copy(), "memory": made.memory.copy()}
                    weights[name][place] += sign * step
                    moved = Reranker(weights["query"], weights["memory"], made.temperature)
                    told.append(math.log(one_by_one(by_hand(moved, question, memories), chosen)))
                due = 0.1 * (1 / 3 - fmean(before)) * (told[0] - told[1]) / (2 * step)
                found = getattr(after.reranker, name)[place] - getattr(made, name)[place]
                worst = max(worst, abs(found - due))
    first = Learning(made).after(question, memories, chosen, 0.0, 0.1)
    still = bool(np.array_equal(first.reranker.query, made.query))
    return Finding(worst < 1e-8 and still and after.rewards == (*before, 1 / 3), say(off_by_hand=worst))


@claim("On average over the draws that is the gradient of the expected reward, whatever the baseline.")
def on_average_over_the_draws_that_is_the_gradient_of_the_expected() -> Finding:
    made, question, memories = random_reranker(3)
    worth = {one: reward(frozenset(one) & {1, 4}, 2) for one in itertools.combinations(range(5), 2)}

    def expected(one: Reranker) -> float:
        scores = one.scores(question, memories)
        return math.fsum(math.exp(subsets.logp(scores, chosen)) * value for chosen, value in worth.items())

    worst = 0.0
    for baseline in (0.0, 0.7):
        whole = np.zeros((5, 5))
        for chosen, value in worth.items():
            chance = math.exp(subsets.logp(made.scores(question, memories), chosen))
            whole += chance * (made.moved(question, memories, chosen, value - baseline).query - made.query)
        for place in itertools.product(range(5), range(5)):
            step = np.zeros((5, 5))
            step[place] = 1e-6
            up, down = (Reranker(made.query + s * step, made.memory, made.temperature) for s in (1, -1))
            worst = max(worst, abs(whole[place] - (expected(up) - expected(down)) / 2e-6))
    return below(1e-8, largest_difference=worst)


@claim("Cited memories count +1, others -1; where an answer cites nothing, those count that hold all its words.")
def cited_memories_count_1_others_1_where_an_answer_cites_nothing() -> Finding:
    shown = ("the red door: 47", "the lamp: 4", "ana keeps the lamp")
    due = {
        "It is 47 [1].": {0},
        "4 [2, 3]": {1, 2},
        "[3] says so, and [1]. [9] does not exist.": {0, 2},
        "<answer>4</answer> [1]": {0},
        "[7]": set(),
        "<answer>47</answer>": {0},
        "<think>47?</think><answer>the lamp</answer>": {1, 2},
        "The lamp": {1, 2},
        "<answer>5</answer>": set(),
        "": set(),
    }
    wrong = [answer for answer, places in due.items() if cited(answer, shown) != places]
    rewards = [reward(frozenset(range(cites)), 3) for cites in range(4)]
    holds = not wrong and max(abs(one - two) for one, two in zip(rewards, (-1, -1 / 3, 1 / 3, 1), strict=True)) < EXACT
    return Finding(holds, f"wrong: {wrong}; {say(rewards=rewards)}")


# ---------------------------------------------------------------- dialogues

SHADES = {"red": "crimson", "blue": "azure", "green": "emerald", "white": "pale"}
THINGS = ("door", "tower", "garden", "river", "bridge", "lamp")
MEMORIES = tuple(
    f"{shade} {thing}: number {10 + n}" for n, (shade, thing) in enumerate(itertools.product(SHADES, THINGS))
)
ASKED = tuple(f"{SHADES[one.split()[0]]} {one.split()[1].strip(':')}" for one in MEMORIES)
"""The user has other words for shades than its memories, so that a search by words alone finds the thing, not which."""

SHOWN, AMONG, PRACTICE = 3, 10, 16


@dataclass(frozen=True)
class Dialogue:
    """A user who asks for what was said before, and a model that answers from what it is shown, and says from where.

    Attributes:
        order: which question each case is. cites: how often it cites what it used, and nothing where it found nothing;
            else it cites any of what is shown.
    """

    order: Sequence[int]
    cites: float = 1.0
    roles: Sequence[str] = ("policy",)
    blocks: Sequence[object] = ()

    def calls(self, texts: Texts) -> int:
        return 1

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        return [self._played(texts, case, key.derive(case, first)) for case in cases]

    def _played(self, texts: Texts, case: int, key: Key) -> CaseResult:
        number = self.order[case]
        question, right = ASKED[number], MEMORIES[number]
        places = range(len(texts.library)) if texts.recall is None else called_up(texts.recall, question, texts.library)
        shown, rng = [texts.library[place] for place in places], key.numpy()
        place = shown.index(right) if right in shown else None
        if rng.random() >= self.cites:
            place = int(rng.integers(len(shown)))
        said = "I do not know." if place is None else f"So I was told [{place + 1}]."
        return CaseResult(case, 0, float(right in shown), 1, question, right, said, [("policy", said)])

    def refuses(self, texts: Texts) -> str | None:
        return problem(texts, self.roles, {})


@cache
def talked(seed: int, cites: float = 1.0, rounds: int = 20) -> SearchBench:
    """A search of the user's memories, which are known; 16 questions are practised, the other 8 are never asked."""
    order = Key.of(seed).derive("dialogue").numpy().permutation(len(MEMORIES)).tolist()
    searcher = ReflectiveMemory(shown=SHOWN, among=AMONG, rounds=rounds)
    return searched(
        Dialogue(order, cites),
        lambda question: "Nothing.",
        searcher,
        seed=seed,
        budget=5000,
        practice=PRACTICE,
        development=len(MEMORIES) - PRACTICE,
        start=Texts(library=(*MEMORIES, "Nothing.")),
    )


@claim(
    "Recall at K of the reranker rises from the static retriever's towards 1, by citations alone, for new questions.",
    slow=True,
)
def recall_at_k_of_the_reranker_rises_from_the_static_retrievers() -> Finding:
    found = [[trial.score for trial in talked(seed).trials[1:]] for seed in range(3)]
    static, last = [one[0] for one in found], [fmean(one[-5:]) for one in found]
    holds = all(end > start for start, end in zip(static, last, strict=True))
    return Finding(holds and fmean(static) < 0.8 and fmean(last) > 0.9, say(static=static, after_320_answers=last))


@claim("It rises less where half of the citations are of anything shown, and not at all where all are.", slow=True)
def it_rises_less_where_half_of_the_citations_are_of_anything_shown() -> Finding:
    static = fmean(talked(seed).trials[1].score for seed in range(3))
    ends = [
        fmean(fmean(trial.score for trial in talked(seed, cites).trials[-5:]) for seed in range(3))
        for cites in (1.0, 0.5, 0.0)
    ]
    holds = ends[0] > ends[1] > static and abs(ends[2] - static) < 0.1
    return Finding(holds, say(static=static, all=ends[0], half=ends[1], none=ends[2]))


@claim("What is kept for use is q'^T m' of the N that BM25 finds: the order that was learnt.")
def what_is_kept_for_use_is_q_t_m_of_the_n_that_bm25_finds_the() -> Finding:
    bench = talked(0)
    texts = bench.trials[-1].texts
    assert texts.recall is not None
    learnt = np.array(texts.recall.learnt)
    wrong = 0
    for question in ASKED:
        told = vectors([question, *texts.library], len(learnt))
        order = np.argsort(-(told[1:] @ told[0] + told[1:] @ learnt.T @ told[0]), kind="stable").tolist()
        near = subsets.best(_bm25(question, texts.library), AMONG)
        due = [place for place in order if place in near][:SHOWN]
        wrong += tuple(due) != reranked(texts.recall, question, texts.library)
    made, asked, memories = random_reranker(1)
    whole = made.scores(asked, memories) * made.temperature - memories @ (asked + np.array(made.learnt).T @ asked)
    again = Texts.from_json(texts.to_json()) == texts
    return Finding(not wrong and again and float(np.abs(whole).max()) < 1e-4, say(wrong=wrong, questions=len(ASKED)))


def _bm25(question: str, library: Sequence[str]) -> np.ndarray:
    from hocket.agents.tools.corpus import Document
    from hocket.agents.tools.search import Index

    return Index([Document(str(place), one) for place, one in enumerate(library)]).scores(question).astype(np.float64)


@claim("Whether an answer is right plays no part in what the reranker learns, and prompts stay as they are.")
def whether_an_answer_is_right_plays_no_part_in_what_the_reranker() -> Finding:
    @dataclass(frozen=True)
    class Mute(Dialogue):
        """The same, and nobody knows whether it is right."""

        def _played(self, texts: Texts, case: int, key: Key) -> CaseResult:
            known = super()._played(texts, case, key)
            return CaseResult(case, 0, 0.0, 1, known.question, "", known.answer, known.said)

    def ends(world: Dialogue) -> tuple[object, bool]:
        start = Texts({"policy": "Say so."}, library=MEMORIES)
        how = {"practice": 16, "development": 8, "budget": 500}
        bench = searched(world, lambda question: "Nothing.", ReflectiveMemory(SHOWN, AMONG, 3), start=start, **how)
        texts = bench.trials[-1].texts
        return texts.recall, all(trial.texts.prompts == {"policy": "Say so."} for trial in bench.trials)

    order = list(range(len(MEMORIES)))
    told, mute = ends(Dialogue(order)), ends(Mute(order))
    return Finding(told == mute and told[1], f"equal {told[0] == mute[0]}")


# ---------------------------------------------------------------- the bank


def topical(question: str) -> str:
    """A reflecting model: what a session says of a thing is a memory; of one thing there is one."""
    if question.startswith("A session"):
        return "\n".join(f"- {one}" for one in re.findall(r"(?:The|My) (\w+ is \w+)", question))
    memory = question.partition("A new memory: ")[2].partition("\n")[0]
    thing, _, value = memory.partition(" is ")
    old = re.search(rf"(\d+)\. {thing} is (.*)", question)
    return "ADD" if old is None else f"MERGE {old[1]}: {thing} is {value}, before {old[2]}"


@claim(
    "After a session each topic is a memory of its own, and what is said of a topic that is known is merged with it."
)
def after_a_session_each_topic_is_a_memory_of_its_own_and_what_is() -> Finding:
    asked = []

    def reflect(question: str) -> str:
        asked.append(question)
        return topical(question)

    bench = SearchBench(Dialogue((0,)), reflect, Texts(), Key.of(0), 10, 1, 1)  # type: ignore[arg-type]
    bank: tuple[str, ...] = ()
    seen = []
    for session in (
        "The door is red. The lamp is blue.",
        "Nothing new.",
        "My door is green. My boat is old.",
        "The lamp is blue.",
    ):
        bank = prospect(bench, bank, session)
        seen.append(bank)
    due = [
        ("door is red", "lamp is blue"),
        ("door is red", "lamp is blue"),
        ("door is green, before red", "lamp is blue", "boat is old"),
        ("door is green, before red", "lamp is blue", "boat is old"),
    ]
    # Of four sessions; of the four memories that were not there to the letter and had others near, "is" being a word.
    extracted = sum(one.startswith("A session") for one in asked)
    return Finding(seen == due and extracted == 4, f"{seen[-1]}; {say(questions=len(asked))}")


@claim("As shipped: three memories of ten, four rounds, eta 0.01, temperature 0.1.", "chosen here")
def as_shipped_three_memories_of_ten_four_rounds_eta_0_01() -> Finding:
    found = RMM.searcher
    holds = found == ReflectiveMemory(3, 10, 4, 0.01, 64, 0.1) and Recall(3, among=10).among == found.among
    return Finding(holds, str(found))


def summing(question: str) -> str:
    """A reflecting model that remembers what a sum came to."""
    if question.startswith("A new memory"):
        return "ADD"
    told = re.search(r"User: (.*)\nAssistant: .*(?:\n.*)*\nUser: (.*)", question)
    return f"{told[1]} It is {told[2]}." if told else "It adds."


# ---------------------------------------------------------------- a small language model in all seats


@claim(
    "A small language model in all seats, taught to go by memories and to cite them, to write down and to merge what "
    "sessions show, but never this convention: the bank states what its signs mean, wholly for two conventions in "
    "three or more; unseen questions rise by more than .5 in each, and no weight changes.",
    slow=True,
)
def a_small_language_model_in_all_seats_taught_to_go_by_memories() -> Finding:
    found = [prompt_checks.sought("rmm", seed=seed, budget=500, evaluation=48) for seed in range(12)]
    due = [set(prompt_checks.told(Conventions(seed)).library) for seed in range(12)]
    stated = [set(one.trials[-1].texts.library) == right for one, right in zip(found, due, strict=True)]
    gains = [one.evaluation[1] - one.evaluation[0] for one in found]
    by_bank = [one.trials[1].score for one in found]
    figures = say(
        start=[one.start for one in found], memories=by_bank, best=[one.best for one in found],
        unseen_start=[one.evaluation[0] for one in found], unseen=[one.evaluation[1] for one in found],
        all_told=[one.ceiling for one in found], stated=sum(stated), calls=[one.trials[-1].spent for one in found],
    )  # fmt: skip
    holds = fmean(stated) >= 2 / 3 and min(gains) > 0.5 and all(one.same for one in found)
    return Finding(holds, figures)


claim.searched(RMM, summing)
