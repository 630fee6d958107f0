"""Reads the verdicts of judges from text: one of several choices, or a grade. An unclear text has no verdict.

A conclusion is searched in this order: the whole answer; a field of a JSON object; tags, boxes and `[[B]]` that begin
or end it; after a label (`Verdict:`, `Score:`; the last one, and a `final` one before others); after a turn of phrase
(`so`, `overall`, `actually`), the last one; its beginning, or a separate sentence; the rest, if it names only one
verdict. Thoughts are no part of an answer, and one that is still open where the answer ends has left
none. Text that is quoted, asked, denied, supposed, compared with, or attributed to somebody else is no conclusion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

YES_NO = ("yes", "no")

_CLOSED = re.compile(r"\A.*</(?:think|thinking|thought|reasoning)>", re.DOTALL | re.IGNORECASE)
_OPEN = re.compile(r"<(?:think|thinking|thought|reasoning)>", re.IGNORECASE)


def said_aloud(text: str | None) -> str | None:
    """An answer behind its thoughts; None where it ends within one."""
    if text is None:
        return None
    answer = _CLOSED.sub("", text)
    return None if _OPEN.search(answer) else answer.strip()


def choice_in(text: str | None, choices: Sequence[str]) -> str | None:
    """The choice that an answer names as its conclusion; None where it names none, several, or is not finished.

    A number alone is taken for the words `yes` (1/2 or more) and `no`, as functions give them. Single letters count in
    capitals, in brackets or alone.
    """
    answer = said_aloud(text)
    if not answer:
        return None
    alone = _alone(answer, choices)
    if alone is not None:
        return alone
    for verdict in _stated(answer, _VERDICTS):
        return choice_in({True: "yes", False: "no"}[verdict] if isinstance(verdict, bool) else str(verdict), choices)
    forms = {choice: _form(choice) for choice in choices}
    labels = (*_VERDICTS, r"final(?=\s*[:=])")
    plain = _weighed(_plain(answer, labels), choices)
    return _concluded(plain, forms, labels, numbers=all(choice.isdecimal() for choice in choices))


def grade_in(text: str | None, scale: float) -> float | None:
    """The grade that an answer gives, from 0 to `scale`, divided by it; None where it gives none, several or others.

    `4/5` and `80 %` are on scales of their own.
    """
    answer = said_aloud(text)
    if not answer:
        return None
    if len(answer) <= 20 and answer[0] in _MARKS and answer[-1] in _MARKS:
        answer = answer.strip(_MARKS)
    for grade in _stated(answer, (*_GRADES, *_VERDICTS)):
        return None if isinstance(grade, bool) else grade_in(str(grade), scale)
    plain = _RANGE.sub("", _plain(answer, _LABELS))
    return _worth(_concluded(plain, {"": _NUMBER}, _LABELS, numbers=True), scale)


# ---------------------------------------------------------------- verdicts in a form

_VERDICTS = ("verdict", "answer", "choice", "decision", "conclusion", "judgment", "judgement", "winner", "result")
_GRADES = ("grade", "score", "rating", "mark", "points")
_FINAL = ("final", "overall", "total")
_LABELS = (*_GRADES, "verdict", "final", "overall", r"^answer(?=\s*[:=])")
"""What a grade may stand behind: an `answer`, `result` or `total` may be that of what is judged."""
_MARKS = "`\"'“”‘’"
_EDGES = " $\t\r\n.,;:!?*_#'\"`“”‘’«»()[]{}<>-–—"


def _alone(text: str, choices: Sequence[str]) -> str | None:
    """The choice that a text is."""
    bare = text.strip(_EDGES.replace("?", "")).casefold()
    if tuple(choices) == YES_NO:
        if re.fullmatch(r"-?\d+(?:[.,]\d+)?", text):
            return "yes" if float(text.replace(",", ".")) >= 0.5 else "no"
        bare = {"true": "yes", "false": "no"}.get(bare, bare)
    return next((choice for choice in choices if choice.casefold() == bare), None)


def _stated(text: str, names: Sequence[str]) -> Iterator[Any]:
    """The value of a field of these names in a JSON object, or of its only field; then what tags and boxes hold."""
    document: Any = None
    with suppress(ValueError, RecursionError):
        document = json.loads(text[text.find("{") : text.rfind("}") + 1])
    if isinstance(document, Mapping):
        plain = {str(name).casefold().replace(" ", "_"): value for name, value in document.items()}
        yield from (value for name, value in plain.items() if name.startswith(_FINAL) and name.endswith(tuple(names)))
        yield from (plain[name] for name in (*names, "correct", "better") if name in plain)
        yield from plain.values() if len(plain) == 1 else ()
    tags = "|".join(names)
    within = rf"<(?P<tag>(?:(?:final|overall)[_ -]?)?(?:{tags}))>(?P<a>.*?)</(?P=tag)>"
    within += r"|\\boxed\{(?:\\text\w*\{)?(?P<b>[^{}]*)\}+|\[\[(?P<c>[^\[\]]*)\]\]"
    for match in list(re.finditer(within, text, re.DOTALL | re.IGNORECASE))[::-1]:
        if not text[match.end() :].strip(f"{_EDGES}$\\") or not text[: match.start()].strip(f"{_EDGES}$\\"):
            yield match["a"] or match["b"] or match["c"] or ""


# ---------------------------------------------------------------- verdicts in sentences

_QUOTED = re.compile(
    r"(?<!\w)'[^'\n]*(?:(?<=\w)'(?=\w)[^'\n]*)*'(?!\w)|\"[^\"\n]*\"|“[^”]*”|‘[^’]*’(?!\w)|«[^»]*»|`[^`\n]*`|^\s*>.*$",
    re.MULTILINE,
)
_EMPHASIS = re.compile(r"```\w*|\*+|^#+\s*|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)", re.MULTILINE)
_SENTENCE = re.compile(r"(?:[^.!?;\n]|\.(?=\d))+[.!?;]*")
_CLAUSE = re.compile(
    r"(?<=[,:()])\s+|\s+(?=[-–—]\s)|\s+(?=(?:but|so|although|though|because|since|while|whereas)\b)", re.I
)
_DENIED = re.compile(
    r"\b(?:not|never|neither|nor|cannot|hardly|without|than|over|instead of|rather than|whether|might|may|"
    r"could|maybe|perhaps|possibly|at first|initially|thought|first sight|to (?:get|reach|earn|deserve)|losers?|minus|"
    r"(?:deduct|subtract)\w*|los(?:es?|t|ing)|(?:wors[et]|weak(?:er|est)|inferior|losing) (?:\w+ )?(?:is|was)|"
    r"(?:wrong|incorrect) (?:answer|response|one|option|text) (?:is|was))"
    r"\b|n['’]t\b|\bno\s+\Z",
    re.I,
)
_OTHERS = re.compile(
    r"['’]s (?:\w+ )?(?:answer|verdict|choice|score|grade)\b|\banswer(?:s|ed)(?: with| that)?\W*\Z|\b(?:says?|said|"
    r"others?|writes?|wrote|claim\w*|states?|stated|replie[sd]|conclude[sd]|argue[sd]|believe[sd]|thinks)\b",
    re.I,
)
_SUPPOSED = re.compile(r"\b(?:if|unless|had it)\b", re.I)
_WORSE = re.compile(
    r"\s*(?:\w+ )?(?:(?:is|was|are|were|does|do|has|have|seems?|looks?|would|could|might|can) ?(?:not\b|n['’]t\b)|"
    r"(?:is|was|seems?|looks?) (?:\w+ )?(?:worse|worst|weaker|wrong|incorrect|inferior|less|bad)\b|"
    r"(?:loses|fails|lacks|would|could|might|needs|requires)\b)",
    re.I,
)
_TURN = re.compile(
    r"\b(?:so|hence|thus|therefore|overall|finally|in conclusion|conclude|in sum|actually|wait|correction|reflection|"
    r"second thoughts?)\b",
    re.I,
)
_ASIDE = re.compile(r"\s*(?:although|(?:even )?though|because|since|while|whereas)\b", re.I)
_TURNS_TO = re.compile(rf"{_TURN.pattern}\W*(?:(?:it['’]s|it is|make (?:it|that)|no|an?|rather)\W+)*\Z", re.I)
_FAVOURS = re.compile(
    r"\b(?:better|best|wins?|winner|prefer\w*|choose|pick|select|superior|stronger|give\w*|gave|rate[sd]?|assign\w*|"
    r"award\w*|score[sd]|grade[sd]|deserves?|merits?|earns?|gets)\b",
    re.I,
)
_PLAIN_WORDS = (*_FINAL, "my", "the", "this", "so", "thus", "hence", "therefore", "correct", "right", "and", "is", "a")
_IS = r"(?: ?[(\[][^()\[\]\n]*[)\]])?\s*(?:is|was|would be|of|at)?\s*(?:[:=,|]|->|→|[-–—](?=\s))?\s*(?:an? )?\(?"
_END = r"\s*(?:\Z|[.,;:!?)\]}\n…|]|\((?:not|slight|clear|by)\w*\b)"
_REASON = r"\s+(?:[-–—](?!\s*\d+\s*(?:=|\.?\s*\Z))|(?:because|since|as|due|for|overall|here|but|while)\b)"
_NUMBER = (
    r"(?<![\w.,/%−–-])[-−+]?\d+(?:[.,]\d{1,2}|\.\d+)?(?:\s*(?:/|\bout of\b|\bof\b)\s*\d+|\s*%)?(?![\w/%]|[.,]\d)"
    rf"(?:\s+(?:points?|marks?|stars?)\b)?(?={_END}|{_REASON}|\s*\()"
)
_QUOTED_ALONE = r"(?<!['’]s )(\b(?:{labels})s?\b{is_})[\"'`“‘]([^\"'`“”‘’\s]{{1,20}})[\"'`”’]"
_NOUN = r"(?:(?:the )?(?:answer|response|assistant|option|text|model) )?"
_SOMEWHAT = r"(?:(?!not |never |hardly |no )\w+ )?"
_OVER = (
    rf"(?:\s*(?:>+|≻)\s*|\s+(?:clearly |slightly )?(?:beats|outperforms|surpasses|wins (?:over|against)|"
    rf"(?:is|was|seems|looks) {_SOMEWHAT}(?:better than|superior to|stronger than|preferable to))\s+)"
)
_UNDER = (
    rf"(?:\s*(?:<+|≺)\s*|\s+(?:clearly |slightly )?(?:loses (?:to|against)|"
    rf"(?:is|was|seems|looks) {_SOMEWHAT}(?:worse than|inferior to|weaker than)|"
    rf"is {_SOMEWHAT}(?:beaten|outperformed) by)\s+)"
)
_EVEN = rf"(?:\s*[=≈~]+\s*|\s+and\s+(?={{other}}\s+are {_SOMEWHAT}(?:tied|equal|even|equivalent)))"
_ANY = re.compile(r"\d+(?:[.,]\d+)?(?:\s*(?:/|\bout of\b|\bof\b)\s*\d+)?")
_RANGE = re.compile(
    r"(?:\bon a )?(?:\bscale )?(?:\b(?:of|from|between) )?\d+(?: \(\w+\))?\s*(?:\bto\b|\band\b|(?<=\d)[-–](?=\d))\s*\d+"
    r"(?: \(\w+\))?[:,]?",
    re.I,
)


_LOOK = 400
"""Characters on either side of a choice in which its clause is read."""
_NAMED, _FAVOURED, _OWN, _TURNED = range(4)


class _Mention(NamedTuple):
    """A choice or number in a text. `rank`: how conclusive it is."""

    rank: int
    what: str


def _weighed(text: str, choices: Sequence[str]) -> str:
    """A text in which what compares two choices (`A > B`, `B loses to A`) says which is better."""
    names = [choice for choice in choices if len(choice) == 1 and choice.isalpha()]
    tie = next((choice for choice in choices if choice.casefold() == "tie"), "…")
    for name in names:
        for other in names:
            if name == other:
                continue
            left, right = rf"(?<![\w'’-]){name}", rf"{_NOUN}{other}(?![\w'’-])"
            text = re.sub(f"{left}{_OVER}{right}", f"{name} is better", text)
            text = re.sub(f"{left}{_UNDER}{right}", f"{other} is better", text)
            text = re.sub(rf"{left}\s+(?:rather than|instead of|over)\s+{right}", name, text)
            text = re.sub(rf"(\bprefer\w*\s+{_NOUN}){name}\s+to\s+{right}", rf"\g<1>{name}", text)
            text = re.sub(rf"\b[Tt]ie between\s+{_NOUN}{name}\s+and\s+{right}", tie, text)
            text = re.sub(f"{left}{_EVEN.format(other=other)}{right}", tie, text)
    return text


def _plain(text: str, labels: Sequence[str]) -> str:
    """Without quotations, questions and emphasis. What alone stands quoted behind a label is none."""
    text = re.sub(_QUOTED_ALONE.format(labels="|".join(labels), is_=_IS), r"\1\2", text, flags=re.IGNORECASE)
    plain = _QUOTED.sub(" … ", _EMPHASIS.sub("", text))
    return _SENTENCE.sub(lambda match: " " if match[0].rstrip().endswith("?") else match[0], plain).strip()


def _form(choice: str) -> str:
    """What names a choice."""
    core = re.escape(choice)
    if choice.isdecimal():
        return rf"(?<![\w.,/-]){core}(?![\w%/]|[.,]\d)"
    if choice.casefold() == "no":  # `no mistakes` is none.
        return rf"(?<![\w-])(?i:{core})(?={_END}|{_REASON}|\s+(?:it|this|that|they|the|and|or)\b)(?!\.\s*\d)"
    if len(choice) > 1:
        return rf"(?<![\w-])(?i:{core})(?!\w|-\w)"
    verbs = r"['’]s\b|\s*[/=>]|\s+(?:is|are|was|wins?|has|does|gives|seems|looks|over|and|or|by|with|than|in|on)\b"
    small = rf"(?<=\()(?i:{core})(?=\))|(?:(?<=[:=] )|(?<=is )|(?<=[Oo]ption ))(?i:{core})(?={_END})"
    return rf"(?<![\w'’-])(?:{core}(?={_END}|{_REASON}|{verbs})|{small})"  # `A text` names nothing.


def _concluded(text: str, forms: Mapping[str, str], labels: Sequence[str], *, numbers: bool) -> str | None:
    """What a text concludes of what `forms` match: the name of a form, or what a nameless one matches."""
    several = re.compile(rf"\s*(?:,|/|&|\band\b|\bor\b)\s*(?:and |or )?(?:{'|'.join(forms.values())})")
    labelled = sorted(label for name, form in forms.items() for label in _labelled(text, labels, name, form, several))
    if labelled:
        return labelled[-1][2]
    if numbers and re.search(r"^\W*1[.)].*^\W*2[.)]", text, re.MULTILINE | re.DOTALL):
        return None  # A list.
    mentions = list(_mentions(text, forms, several))
    for rank in (_TURNED, _OWN, _FAVOURED, _NAMED):
        conclusions = [mention.what for mention in mentions if mention.rank == rank]
        if conclusions:
            return conclusions[-1] if rank == _TURNED or len(set(conclusions)) == 1 else None
    return None


def _labelled(
    text: str, labels: Sequence[str], name: str, form: str, several: re.Pattern[str]
) -> Iterator[tuple[bool, int, str]]:
    """Whether it is final, its place, and the text after each label; labels of parts (`style score`) do not count."""
    named = rf"(?P<before>[\w'’]*)[ \t]*\b(?i:{'|'.join(labels)})s?\b(?i:{_IS})(?P<what>{form})"
    for match in re.finditer(named, text, re.MULTILINE):
        before, lead = match["before"].casefold(), re.split(r"[.!;\n]", text[: match.start()])[-1]
        worse = not name.isdecimal() and name not in YES_NO and _WORSE.match(text, match.end())
        stated = not (name and worse) and not _SUPPOSED.search(lead) and not _unstated(re.split(r"[,:]", lead)[-1])
        if stated and (not before or before in _PLAIN_WORDS) and not several.match(text, match.end()):
            final = before in _FINAL or match[0].casefold().lstrip().startswith(_FINAL)
            yield final, match.start("what"), name or match["what"]


def _mentions(text: str, forms: Mapping[str, str], several: re.Pattern[str]) -> Iterator[_Mention]:
    """Where a text states what `forms` match, in order."""
    for sentence in _SENTENCE.finditer(text):
        end = sentence.start()
        turn, condition = (pattern.search(sentence[0]) for pattern in (_TURN, _SUPPOSED))
        for clause in _CLAUSE.split(sentence[0]):
            start = text.index(clause, end)
            end = start + len(clause)
            aside = _ASIDE.match(clause)
            favours = not aside and bool(_FAVOURS.search(clause))
            hits = [(hit, name) for name, form in forms.items() for hit in re.compile(form).finditer(text, start, end)]
            for hit, name in sorted(hits, key=lambda entry: entry[0].start()):
                before, after = text[max(start, hit.start() - _LOOK) : hit.start()], text[hit.end() : end][:_LOOK]
                supposed = condition and sentence.start() + condition.end() <= hit.start()
                worse = not name.isdecimal() and name not in YES_NO and _WORSE.match(after)
                if supposed or worse or _unstated(before):
                    continue
                alone = not text[: hit.start()].strip(_EDGES) or not sentence[0].replace(hit[0], "", 1).strip(_EDGES)
                verdict = alone and not several.match(text, hit.end())
                verdict = verdict and (_stands(text, hit.end()) if name else _only(text, hit.end()))
                favoured = favours and (bool(name) or len(_ANY.findall(clause)) == 1)
                turned = not aside and turn and sentence.start() + turn.end() <= hit.start()
                verdict = verdict or bool(not name and turned and _TURNS_TO.search(text, sentence.start(), hit.start()))
                if name or verdict or favoured or not hit[0].strip("+-−").replace(".", "").replace(",", "").isdecimal():
                    yield _Mention(
                        _TURNED if turned else _OWN if verdict else _FAVOURED if favoured else _NAMED, name or hit[0]
                    )


def _unstated(before: str) -> bool:
    """Whether the words before something in a clause deny it, or give it to somebody else."""
    others = _OTHERS.search(before) and not re.search(r"\b(?:I|[Ww]e)\b", before)
    return bool(others or _DENIED.search(before))


def _stands(text: str, end: int) -> bool:
    """Whether a letter stands by itself, and does not begin a sentence about it."""
    return re.compile(f"(?!:){_END}|{_REASON}").match(text, end) is not None


def _only(text: str, end: int) -> bool:
    """Whether a number is neither a grade for a part, one of several, nor the first of a sum."""
    after = re.compile(r"\s+for\b|\s*[-–+*×]\s*\d+\s*(?:=|\.?\s*\Z)").match(text, end)
    return after is None or len(_ANY.findall(text)) == 1


def _worth(number: str | None, scale: float) -> float | None:
    """A grade as a share of its scale."""
    match = re.match(r"([-−+]?\d+(?:[.,]\d+)?)\s*(?:(?:/|out of|of)\s*(\d+)|(%))?", number or "")
    if match is None:
        return None
    value = float(match[1].replace(",", ".").replace("−", "-"))
    most = 100.0 if match[3] else float(match[2]) if match[2] else scale
    return value / most if 0 <= value <= most and most > 0 else None
