"""Claims about ESG portfolios in a regulated market."""

from __future__ import annotations

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.portfolios import greedy_play, investor, world_of
from hocket.zoo.joint.market import Market, Portfolios, drawn_moments, planted_scores, weights_of

claim = Claims("esg-portfolio-drl", "arXiv:2307.09631; amounts of grants and taxes are chosen here")

PLAIN, REGULATED = "market:gaussian", "market:gaussian?regulated=true"


@claim("Wealth is what the held pieces are worth at the next prices, less costs and taxes, with grants: by an account.")
def wealth_is_what_an_account_says() -> Finding:
    world, draw = Market(regulated=True, cost=0.01), Key.of(0).derive("orders").numpy()
    book, live = Portfolios(world, 6), np.ones(6, bool)
    book.reset(range(6), range(6))
    scores, off = planted_scores(), 0.0
    prices, pieces, cash = np.ones((6, 4)), np.full((6, 4), 0.25), np.zeros(6)
    for period in range(world.length):
        action = draw.standard_normal((6, 4))
        earned = book.step([action], live).rewards[:, 0]
        for slot in range(6):
            before = cash[slot] + pieces[slot] @ prices[slot]
            wanted = weights_of(action[slot]) * before / prices[slot]
            turnover = np.abs(wanted - pieces[slot]) @ prices[slot]
            pieces[slot] = wanted
            after = prices[slot] * (1 + world.path(slot)[world.window + period])
            gain = float(pieces[slot] @ (after - prices[slot]))
            score = float(scores @ (pieces[slot] * prices[slot]) / before)
            grant = max(gain, 0.0) * world.grant * score
            tax = before * world.tax * max(float(scores.mean()) - score, 0.0)
            worth = pieces[slot] @ after
            net = worth - world.cost * turnover + grant - tax
            off = max(off, abs(net / before - 1 - earned[slot] / 100))
            pieces[slot] *= net / worth  # What is won or lost besides is taken from all pieces alike.
            prices[slot] = after
            off = max(off, abs(net - book.wealth[slot]))
    return Finding(off < 1e-9, say(off=off))


@claim("Nothing looks ahead: other returns from a period on change nothing seen up to it, and all that is seen later.")
def nothing_looks_ahead() -> Finding:
    world, live, wrong = Market(window=3), np.ones(1, bool), 0
    for period in (1, 7, 30):
        sights = []
        for changed in (False, True):
            book = Portfolios(world, 1)
            book.reset([0], [5])
            if changed:
                book.paths[:, world.window + period :] += 0.5
            rows = [book.seen()[0]]
            for _ in range(world.length):
                book.step([np.zeros((1, 4))], live)
                rows.append(book.seen()[0])
            sights.append(rows)
        same = [bool(np.array_equal(*pair)) for pair in zip(*sights, strict=True)]
        wrong += same[: period + 1] != [True] * (period + 1) or any(same[period + 1 :])
    return Finding(wrong == 0, say(wrong=wrong))


@claim("The planted scores are uncorrelated with mean returns, and that of the highest mean is below the mean score.")
def the_planted_scores_are_uncorrelated_with_returns() -> Finding:
    scores, mean = planted_scores(), drawn_moments()[0]
    correlation = float(np.corrcoef(scores, mean)[0, 1])
    ends = (float(scores.min()), float(scores.max()))
    holds = abs(correlation) < 1e-12 and ends == (0, 1) and scores[mean.argmax()] < scores.mean()
    return Finding(
        holds, say(correlation=correlation, highest_mean=float(scores[mean.argmax()]), mean=float(scores.mean()))
    )


@claim(
    "In a plain market PPO's ESG score does not rise above that of equal weights; under regulation it does, "
    "and by one accounting, without grants and taxes, it then earns less.",
    slow=True,
)
def the_score_rises_under_regulation_only() -> Finding:
    scores, steps = planted_scores(), 40
    held, earned = dict[str, list[float]](), dict[str, list[float]]()
    for task in (PLAIN, REGULATED):
        for seed in range(1):
            weights, returns = greedy_play(investor("ppo", task, seed, steps), world_of(PLAIN), 200)
            held.setdefault(task, []).append(float(weights.mean((0, 1)) @ scores))
            earned.setdefault(task, []).append(100 * float(returns.mean()))
    equal = float(scores.mean())
    holds = max(held[PLAIN]) < equal < min(held[REGULATED]) and max(earned[REGULATED]) < min(earned[PLAIN])
    return Finding(
        holds,
        say(
            plain=held[PLAIN],
            regulated=held[REGULATED],
            equal=equal,
            percent_plain=earned[PLAIN],
            percent_regulated=earned[REGULATED],
        ),
    )
