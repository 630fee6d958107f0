"""E-GRPO's claims."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, gap, runs, say
from hocket.lab.toys.recorded_answers import advantages, group_relative, lines, said, shaped
from hocket.lab.toys.training import area
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.e_grpo import E_GRPO, TracedSums, matched_share
from hocket.tasks.split import split_of

claim = Claims("e-grpo", "arXiv:2510.24694; alpha chosen here")
KNOWN = ["Ada Lovelace", "London", "1843", "Babbage"]


@claim("an all-wrong group ranks near misses, equal g gives no signal")
def an_all_wrong_group_ranks_near_misses_equal_g_gives_no_signal() -> Finding:
    texts = ["I guess.", "Ada Lovelace met Babbage in London.", "Babbage in london", "no idea", "Ada Lovelace, 1843"]
    labels, info = ["x", "y", "y", "y", None], {"entities": KNOWN}
    rows = [said("q", text, float(n == 0), label=labels[n], info=info) for n, text in enumerate(texts)]
    rewards, expected = shaped(E_GRPO, rows), [1.0, 0.3 * 1.0, 0.3 * 2 / 3, 0.0, 0.0]
    wrong, equal = advantages(E_GRPO, rows[1:4]), advantages(E_GRPO, [rows[3]] * 3)
    plain = advantages(GRPO, rows[1:4])
    holds = gap(rewards, expected) < 1e-12 and gap(wrong, group_relative(expected[1:4])) < 1e-9
    holds &= wrong[0] > wrong[1] > wrong[2] and equal == plain == [0.0] * 3
    return Finding(holds, lines(rewards=rewards, all_wrong_groups_get=wrong, by_grpo=plain, with_equal_g=equal))


@claim("any right answer outranks any wrong one")
def any_right_answer_outranks_any_wrong_one() -> Finding:
    generator, leads, recipe = Key.of(5).numpy(), [], E_GRPO.but({"shaping.0.alpha": 0.999})
    for trial in range(40):
        rows = []
        for _ in range(6):
            text = " and ".join([name for name in KNOWN if generator.random() < 0.5])
            rows.append(said(str(trial), text, float(generator.random() < 0.4), label="x", info={"entities": KNOWN}))
        rewards: dict[float, list[float]] = {0.0: [], 1.0: []}
        for value, row in zip(shaped(recipe, rows), rows, strict=True):
            rewards[row["scores"]["reward"]].append(value)
        leads += [min(rewards[1.0]) - max(rewards[0.0])] if all(rewards.values()) else []
    return Finding(min(leads) > 0, f"40 groups, alpha = 0.999: {say(least_lead_of_a_right_answer=min(leads))}")


@claim("entities named in any turn count, not those of the last turn alone")
def entities_named_in_any_turn_count_not_those_of_the_last_turn() -> Finding:
    last = "<answer>3</answer>"
    rows = [
        said("q", last, 0.0, label="3", info={"entities": KNOWN, "trace": f"{before}\n{last}"})
        for before in ("Ada Lovelace in London, 1843, with Babbage", "London and 1843", "nothing")
    ]
    rewards = shaped(E_GRPO, rows)
    return Finding(gap(rewards, [0.3, 0.15, 0.0]) < 1e-12, lines(rewards=rewards))


@claim("g is a share of the entities, of whole words in any case; the shipped task has 3 or 4 terms, and splits apart.")
def g_is_a_share_of_the_entities_of_whole_words_in_any_case_the() -> Finding:
    shares = [matched_share(text, KNOWN) for text in ("ada  lovelace in LONDON", "Londoner", "1843", "")]
    drawn = {split: [TracedSums().scenario(split, number) for number in range(150)] for split in ("train", "eval")}
    own = all(split_of(str(one.prompt)) == split for split, ones in drawn.items() for one in ones)
    sizes = {len(one.metadata["entities"]) + 1 for ones in drawn.values() for one in ones}
    return Finding(shares == [0.5, 0.0, 0.25, 0.0] and own and sizes == {3, 4}, lines(shares=shares, terms=str(sizes)))


HOPS, LINKS = 4, 4


def entity(question: int, path: Sequence[int]) -> str:
    return f"node{question}{''.join('abcd'[step] for step in path)}"


def trail(question: int) -> Answer:
    return tuple((2 * question + 3 * hop + 1) % LINKS for hop in range(HOPS))


def known_entities(question: int) -> list[str]:
    """What the question was made from: the entities on the way."""
    return [entity(question, trail(question)[:hop]) for hop in range(1, HOPS)]


def text(question: int, answer: Answer) -> str:
    *way, end = (entity(question, answer[: hop + 1]) for hop in range(len(answer)))
    return " ".join(f"search finds {name}." for name in way) + f" <answer>{end}</answer>"


# Questions over several hops: each token follows a link of a local index, and what it finds is written down.
LOOKUPS = World(
    *(2, LINKS, HOPS, lambda question, answer: float(answer == trail(question))),
    text=text,
    label=entity,
    metadata=lambda question: {"entities": known_entities(question)},
)


def dropped(bench: Bench) -> float:
    """Expected share of known entities matched in answers that are wrong."""
    return bench.expected(lambda q, a: matched_share(text(q, a), known_entities(q)) if a != trail(q) else 0.0)


@claim("faster than 0/1 reward, without growing entity-dropping", slow=True)
def faster_than_0_1_reward_without_growing_entity_dropping() -> Finding:
    """Four hops of four links: a blind agent is right once in 256 attempts."""
    plain, graded = runs(LOOKUPS, GRPO, E_GRPO, steps=80, every=10, lr=0.1).values()
    (theirs, ours), before = ([area(one) for one in side] for side in (plain, graded)), dropped(Bench(LOOKUPS, E_GRPO))
    spam, (ends, end) = [dropped(one) for one in graded], ([one.success() for one in side] for side in (plain, graded))
    holds = all(a > b for a, b in zip(ours, theirs, strict=True)) and fmean(ours) > fmean(theirs) + 0.15
    areas = lines(mean_success_over_the_run=ours, at_its_end=end, with_0_1_reward=theirs, its_end=ends)
    entities = lines(entities_matched_without_the_answer_before=before, after=spam)
    return Finding(holds and max(spam) < before, f"{areas}, {entities}")


claim.shipped(E_GRPO, "shaping")
