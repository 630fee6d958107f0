"""Tuning as a protocol: a broad space, seeds to tune on, other seeds to report on, and the gap between them.

No learner, so no recipe: `hocket study` is what runs, with `tuning` in its file. Candidates are combinations of a grid,
all or drawn at random, thinned out by successive halving over seeds; the winner is run on testing seeds, none of which
may be a tuning seed; the study tells the winner's score on both, the gap and what the search cost.

Of the paper's optimisers there are random search and successive halving; DEHB and population-based training are not.
The resource of halving is the number of seeds, not the length of a run.
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

AUTORL_HPO_PROTOCOL = Analysis(
    name="autorl-hpo-protocol",
    title="Tuning on some seeds, reporting on others, and the gap between them",
    where="docs/studies.md",
)
