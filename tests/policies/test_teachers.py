"""References of other kinds: several routed ones, one of another tokenizer, one that reads other prompts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from other_tokenizer import other_tokenizer, write_other_nano
from torch import Tensor

from hocket.agents.workflows.chat import Chat
from hocket.core.columns import METADATA, PROMPT
from hocket.core.divergences import JensenShannon
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.span_divergences import SharedTokens, SortedProbabilities, SpanDivergence
from hocket.methods.base.opsd import behind_privileged
from hocket.methods.base.self_distillation import PRIVILEGED_PROMPT
from hocket.nano import BASE
from hocket.nano.tokenizer import build_tokenizer
from hocket.policies import heads
from hocket.policies.causal_lm import CausalLM
from hocket.policies.other_vocabulary import OtherVocabulary, spans_apart, texts_apart
from hocket.policies.routed_teachers import RoutedTeachers
from hocket.policies.text_spans import ends_of, spans_of
from hocket.types import Batch, Quantity, Scenario, Trajectory, Turn

TEXTS = "The answer is 1234.", "12 + 3 = 15", "7"


@pytest.fixture(scope="module")
def nano() -> CausalLM:
    return CausalLM.from_pretrained(BASE, key=Key.of(0))


def moved(policy: CausalLM, seed: int) -> CausalLM:
    """A copy some way off."""
    copied = policy.frozen_copy()
    with torch.no_grad():
        for number, weight in enumerate(copied.model.parameters()):
            noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(100 * seed + number))
            weight.add_(0.02 * noise)
    return copied


def experience(tokenizer: object, column: str = "teacher") -> Batch:
    """Answers to one question, with the names of teachers `a` and `b` in turn."""
    chat, played = Chat(tokenizer), []
    opening = np.array(chat.opening([{"role": "user", "content": "What is 1 + 2?"}]))
    for number, text in enumerate(TEXTS):
        action = np.array([*chat.encode(text), chat.end_of_turn])
        played.append(Trajectory(Scenario(f"s/{number}"), [Turn("agent", "policy", opening, action)]))
    batch = pack(played)
    return batch.but(
        info={
            PROMPT.name: ["What is 1 + 2?"] * len(TEXTS),
            METADATA.name: [{column: "ab"[number % 2]} for number in range(len(TEXTS))],
        }
    )


# ------------------------------------------------------------ several teachers


def test_each_answer_is_compared_with_the_teacher_that_its_column_names(nano: CausalLM) -> None:
    batch = experience(nano.tokenizer)
    teachers = {"a": moved(nano, 1), "b": moved(nano, 2)}
    routed = RoutedTeachers("policy", teachers, "teacher")
    student = moved(nano, 3)
    student.divergence = JensenShannon(1.0)
    wanted = {Quantity.LOGP, Quantity.DIVERGENCE}
    alone = {name: student.evaluate(batch, wanted, reference=one).divergence for name, one in teachers.items()}
    both = student.evaluate(batch, wanted, reference=routed).divergence
    second = batch.occurrences.trajectory == 1
    assert torch.allclose(both, torch.where(second, alone["b"], alone["a"]), atol=1e-6)
    assert not torch.allclose(alone["a"], alone["b"], atol=1e-4)
    logp = routed.evaluate(batch, {Quantity.LOGP}).logp
    by_name = {name: one.evaluate(batch, {Quantity.LOGP}).logp for name, one in teachers.items()}
    assert torch.allclose(logp, torch.where(second, by_name["b"], by_name["a"]), atol=1e-5)


def test_an_answer_of_no_teacher_is_refused(nano: CausalLM) -> None:
    routed = RoutedTeachers("policy", {"a": nano}, "teacher")
    with pytest.raises(ConfigurationError, match="teacher = 'b' of a scenario names none of the teachers a"):
        routed.evaluate(experience(nano.tokenizer), {Quantity.LOGP})
    with pytest.raises(ConfigurationError, match="topic = None of a scenario"):
        RoutedTeachers("policy", {"a": nano}, "topic").evaluate(experience(nano.tokenizer), {Quantity.LOGP})


# ------------------------------------------------------------ another prompt


def test_the_reference_reads_the_privileged_prompt_and_the_policy_does_not(nano: CausalLM) -> None:
    chat, batch = Chat(nano.tokenizer), experience(nano.tokenizer)
    longer = chat.opening([{"role": "user", "content": "What is 1 + 2?\nAnswer: 3"}])
    batch = batch.but(info=batch.info | {PRIVILEGED_PROMPT.name: [list(longer), None, list(longer)]})
    student, reference = moved(nano, 1), moved(nano, 2)
    student.divergence = JensenShannon(0.0)
    wanted = {Quantity.LOGP, Quantity.DIVERGENCE}
    plain = student.evaluate(batch, wanted, reference=reference)
    student.reference_view = behind_privileged
    viewed = student.evaluate(batch, wanted, reference=reference)
    assert torch.equal(viewed.logp, plain.logp)
    same = torch.isclose(viewed.divergence, plain.divergence, atol=1e-6)
    second = batch.occurrences.trajectory == 1
    assert bool(same[second].all())
    assert not bool(same[~second].all())
    everything = torch.arange(batch.decisions)
    mine = student.distributions(batch, everything)(everything)
    theirs = reference.distributions(behind_privileged(batch), everything)(everything)
    assert torch.allclose(viewed.divergence, (theirs.exp() * (theirs - mine)).sum(1), atol=1e-5)


# ------------------------------------------------------------ another tokenizer


def test_spans_end_where_both_tokenizers_have_an_end() -> None:
    assert spans_of([1, 3, 6, 8], [2, 3, 5, 8]) == [([0, 1], [0, 1]), ([2, 3], [2, 3])]
    assert spans_of([1, 2], [1, 2]) == [([0], [0]), ([1], [1])]
    assert spans_of([2, 2, 4], [4]) == [([0, 1, 2], [0])]
    assert spans_of([1, 5], [1, 4, 4.5]) == [([0], [0]), ([1], [1, 2])], "what is left is a span"
    assert spans_of([], [1]) == []


def test_tokens_that_end_inside_a_character_align_with_nothing() -> None:
    pieces = {1: b"a", 2: b"\xc3", 3: b"\xa9", 4: b"b"}

    def decode(tokens: object) -> str:
        return b"".join(pieces[token] for token in tokens).decode("utf-8", "replace")  # type: ignore[attr-defined]

    assert ends_of(decode, [1, 2, 3, 4], 0.25) == [1.0, 1.25, 3.0, 4.0]
    both = other_tokenizer(), build_tokenizer()
    first, second = (ends_of(lambda part, one=one: one.decode(part), one.encode("is 1234"), 0.5) for one in both)
    assert first == [1, 2, 3, 5, 7]
    assert second == [1, 2, 3, 4, 5, 6, 7]


def written_down(divergence: SpanDivergence, p: Tensor, q: Tensor, shared: tuple[list[int], list[int]]) -> Tensor:
    """TRL 1.16's hybrid loss of one span by loops over tokens, `uld_token_merge_strategy="bayesian"`."""
    total = p.new_zeros(())
    mine, theirs = shared if isinstance(divergence, SharedTokens) else ([], [])
    weight = len(theirs) / len(q)
    for i, j in zip(mine, theirs, strict=True):
        a, b = p[i].clamp(min=1e-8), q[j].clamp(min=1e-8)
        beta = divergence.beta  # type: ignore[attr-defined]
        if beta == 0:
            total = total + weight * b * (b.log() - a.log())
        elif beta == 1:
            total = total + weight * a * (a.log() - b.log())
        else:
            m = ((1 - beta) * a + beta * b).log()
            total = total + weight * (beta * b * (b.log() - m) + (1 - beta) * a * (a.log() - m))
    rest = [[x for n, x in enumerate(one) if n not in used] for one, used in ((p, mine), (q, theirs))]
    ranked = [sorted(one, key=lambda x: float(x.detach()), reverse=True) for one in rest]
    longest = max(map(len, ranked))
    ranked = [[*one, *[p.new_zeros(())] * (longest - len(one))] for one in ranked]
    by_rank = sum(abs(a - b) for a, b in zip(*ranked, strict=True))
    return total + (1 - weight if mine else 1.0) * by_rank


@pytest.mark.parametrize(
    "divergence", [SharedTokens(), SharedTokens(beta=0.0), SharedTokens(beta=1.0), SortedProbabilities()], ids=str
)
def test_spans_are_compared_as_in_trl(divergence: SpanDivergence, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(1)
    mine = torch.randn(5, 7, dtype=torch.float64, generator=draw).requires_grad_()
    theirs = torch.randn(5, 9, dtype=torch.float64, generator=draw)
    earlier = torch.rand(5, dtype=torch.float64, generator=draw).requires_grad_()
    other_earlier, heat = torch.rand(5, dtype=torch.float64, generator=draw), torch.full((5,), 0.7)
    shared = [0, 3, 6], [8, 1, 2]
    expected = torch.stack(
        [
            written_down(divergence, torch.softmax(s / 0.7, 0) * a, torch.softmax(t / 0.7, 0) * b, shared)
            for s, t, a, b in zip(mine, theirs, earlier, other_earlier, strict=True)
        ]
    )
    slopes = torch.autograd.grad(expected.square().sum(), [mine, earlier])
    for budget in (2**23, 16):
        monkeypatch.setattr(heads, "LOGIT_BUDGET", budget)
        found = spans_apart(
            divergence,
            (lambda logits: logits, mine),
            earlier,
            (lambda logits: logits, theirs),
            other_earlier,
            heat.double(),
            (torch.tensor(shared[0]), torch.tensor(shared[1])),
        )
        assert torch.allclose(found, expected, atol=1e-7)
        for slope, other in zip(torch.autograd.grad(found.square().sum(), [mine, earlier]), slopes, strict=True):
            assert torch.allclose(slope, other, atol=1e-7)


def test_a_token_that_the_teacher_spells_in_two_is_learnt_by_its_text_and_unlearnt_by_its_last_token() -> None:
    # The student has the tokens 6, 86 and x, the teacher 8, 6 and x, and the answer is 86.
    shared = torch.tensor([0, 2]), torch.tensor([1, 2])
    mine = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64).log().requires_grad_()
    theirs = torch.tensor([[0.05, 0.9, 0.05]], dtype=torch.float64).log()  # After its 8, which had 0.8.
    before, one = torch.tensor([0.8], dtype=torch.float64), torch.ones(1, dtype=torch.float64)

    def slope(divergence: SpanDivergence) -> tuple[float, Tensor]:
        logp = torch.log_softmax(mine, -1)[0]
        read = (logp[1:2], torch.cat([before.log(), theirs[0, 1:2]]))
        texts = texts_apart(divergence, [read], [(1, 1)], shared)
        heads_of = (lambda logits: logits, mine), one, (lambda logits: logits, theirs), before
        apart = spans_apart(divergence, *heads_of, one, shared, texts)
        return float(apart.detach()), torch.autograd.grad(apart.sum(), [mine])[0][0]

    for beta in (0.0, 0.5, 1.0):
        if beta < 1:
            assert slope(SharedTokens(beta=beta))[1][1] > 0  # Descent lowers the probability of 86.
        value, by_text = slope(SharedTokens(beta=beta, merged="text"))
        assert by_text[1] < 0
        p, q = (torch.tensor([one, 1 - one], dtype=torch.float64).log() for one in (0.3, 0.72))
        assert value == pytest.approx(float(JensenShannon(beta)(p[None], q[None])), rel=1e-9)
    weighted, _ = slope(SharedTokens(shared=1.0, others=2.0, merged="text"))
    assert weighted == pytest.approx(3 * slope(SharedTokens(merged="text"))[0])


def test_spans_of_one_token_of_both_are_compared_alike_by_text() -> None:
    logp = torch.tensor([-1.0]), torch.tensor([-2.0])
    shared = torch.tensor([4, 5]), torch.tensor([0, 1])
    texts = texts_apart(SharedTokens(merged="text"), [logp, logp], [(4, 0), (4, 1)], shared)
    assert texts is not None
    assert texts.isnan().tolist() == [True, False]
    assert texts_apart(SharedTokens(), [logp], [(4, 1)], shared) is None
    assert texts_apart(SortedProbabilities(), [logp], [(4, 1)], shared) is None


def test_in_the_same_tokens_it_is_the_divergence_of_those_tokens() -> None:
    draw = torch.Generator().manual_seed(0)
    p, q = (torch.log_softmax(torch.randn(4, 6, dtype=torch.float64, generator=draw), -1) for _ in range(2))
    assert torch.allclose(SharedTokens(beta=0.3)(p, q), JensenShannon(0.3)(p, q), atol=1e-9)


def test_settings_out_of_range_are_refused() -> None:
    for settings in ({"beta": 2.0}, {"shared": 0.5}, {"shared": 1.0, "others": -1.0}, {"merged": "first"}):
        with pytest.raises(ValueError, match="must"):
            SharedTokens(**settings)


def test_an_answer_is_compared_span_by_span_with_a_teacher_of_other_tokens(nano: CausalLM, tmp_path: Path) -> None:
    student = CausalLM.from_pretrained(write_other_nano(tmp_path / "other"), key=Key.of(0))
    teacher = OtherVocabulary(nano, Chat(nano.tokenizer), student.tokenizer, Chat(student.tokenizer).stops)
    batch = experience(student.tokenizer)
    student.divergence = SharedTokens()
    now = student.evaluate(batch, {Quantity.LOGP, Quantity.DIVERGENCE}, reference=teacher)
    apart, trajectory = now.divergence, batch.occurrences.trajectory
    closing = [(apart[trajectory == n] != 0).nonzero().flatten().tolist() for n in range(3)]
    # "The answer is " is one token of nano's and 14 of the student's; then pairs of digits, the stop and the end.
    assert closing[0] == [13, 14, 15, 16, 17]
    assert closing[2] == [0, 1]
    # The last answer by hand: one digit, then the end, which is one token for both.
    texts = [*student.tokenizer.encode("7"), student.tokenizer.eos_token_id]
    assert batch.action[trajectory == 2].tolist() == texts
    opening = Chat(nano.tokenizer).opening([{"role": "user", "content": "What is 1 + 2?"}])
    turn = Turn("agent", "policy", np.array(opening), np.array([*nano.tokenizer.encode("7"), 1]))
    places = torch.arange(2)
    theirs = nano.distributions(pack([Trajectory(Scenario("s"), [turn])]), places)(places).exp()
    chosen = torch.nonzero(trajectory == 2).flatten()
    mine = student.distributions(batch, chosen)(places).exp()
    vocabularies = student.tokenizer.get_vocab(), nano.tokenizer.get_vocab()
    pairs = sorted({n: vocabularies[0][t] for t, n in vocabularies[1].items() if t in vocabularies[0]}.items())
    ends = dict(pairs) | {1: 1}
    assert vocabularies[0]["</turn>"] == vocabularies[1]["<|end|>"] == 1
    shared = torch.tensor([ends[n] for n in sorted(ends)]), torch.tensor(sorted(ends))
    assert torch.allclose(apart[chosen], SharedTokens().between(mine, theirs, shared), atol=1e-5)
    weights = next(student.model.parameters())
    assert float(torch.autograd.grad(apart.sum(), [weights])[0].abs().max()) > 0
    # By text: the first span is the phrase, 14 tokens of the student's and one of nano's.
    student.divergence = SharedTokens(merged="text")
    by_text = student.evaluate(batch, {Quantity.LOGP, Quantity.DIVERGENCE}, reference=teacher)
    assert torch.allclose(by_text.divergence[chosen], apart[chosen], atol=1e-6)
    assert float((by_text.divergence[trajectory == 0][13] - apart[trajectory == 0][13]).abs()) > 1e-4


def test_recipes_that_need_one_vocabulary_refuse_another(nano: CausalLM) -> None:
    teacher = OtherVocabulary(nano, Chat(nano.tokenizer), other_tokenizer(), (1,))
    batch = experience(nano.tokenizer)
    with pytest.raises(ConfigurationError, match=r"reads other tokens; .* --recipe gold"):
        teacher.evaluate(batch, {Quantity.LOGP})
    student = moved(nano, 1)
    student.divergence = JensenShannon()
    with pytest.raises(ConfigurationError, match=r"reads other tokens; .* --recipe gold"):
        student.evaluate(batch, {Quantity.DIVERGENCE}, reference=teacher)
    student.divergence = SharedTokens()
    turns = [Turn("agent", "policy", np.array([5]), np.array([6]))]
    turns.append(Turn("agent", "policy", np.array([7]), np.array([8]), parent=turns[0]))
    talk = pack([Trajectory(Scenario("s"), turns)]).but(info={PROMPT.name: ["x"]})
    with pytest.raises(ConfigurationError, match="reads answers of one turn, and these have several"):
        student.evaluate(talk, {Quantity.DIVERGENCE}, reference=teacher)
    assert math.isfinite(float(student.evaluate(batch, {Quantity.LOGP}).logp.sum()))
