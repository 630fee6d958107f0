"""Several teachers of one student, each for its own part of the task (MOPD, MiMo-V2-Flash; tinker-cookbook 0.6).

`--teacher NAME=WHERE,NAME=WHERE` names them, and the column `teacher` of a scenario says which one reads its answers
(`by=COLUMN,` in front names another column). A teacher is a model, a run or a server. Every distillation recipe takes
several teachers; `multi-teacher` is the sampled token's form, and its text is the student's.
"""

from __future__ import annotations

from hocket.methods.base.distillation import ON_POLICY_DISTILLATION, ON_POLICY_DISTILLATION_EXACT

ROUTED = {
    "teacher": "`--teacher NAME=WHERE,NAME=WHERE`, of the student's tokenizer; the scenario's column `teacher`, or the "
    "one that `by=COLUMN,` names, says which of them reads an answer",
}

MULTI_TEACHER = ON_POLICY_DISTILLATION.but(
    name="multi-teacher",
    title="Multi-teacher on-policy distillation",
    source="Xiao et al., MiMo-V2-Flash, arXiv:2601.02780; tinker-cookbook 0.6, on-policy distillation of several "
    "datasets",
    formula="A_it = log q_k(a_it) - log p_old(a_it),  k the teacher of scenario i,  "
    "L = -1/sum_i n_i sum_i sum_t r_it A_it",
    conventions={**ON_POLICY_DISTILLATION.conventions, **ROUTED},
    note="without the reward of the task, which MiMo-V2-Flash adds to the teachers' log-ratios",
)


MULTI_TEACHER_EXACT = ON_POLICY_DISTILLATION_EXACT.but(
    name="multi-teacher-exact",
    title="Multi-teacher on-policy distillation by the reverse KL over all tokens",
    formula="L = 1/sum_i n_i sum_i sum_t KL(p || q_k),  a_i ~ p,  k the teacher of scenario i",
    conventions={**ON_POLICY_DISTILLATION_EXACT.conventions, **ROUTED},
)
