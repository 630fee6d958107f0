"""Solutions and their tests: right ones pass, wrong ones fail, and cheats fail."""

from __future__ import annotations

import ast
import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.agents.tools.sandbox import Sandbox, available
from hocket.agents.tools.unit_tests import UnitTestVerdict, examine, take_apart
from hocket.core.components import from_plain, to_plain
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.rewards.code_tests import CodeTests, code_of
from hocket.types import Scenario, Trajectory, Turn

LOCKS = available()[0]
needs_sandbox = pytest.mark.skipif(
    not {"limits", "seccomp"} <= set(LOCKS) or not {"namespaces", "landlock"} & set(LOCKS),
    reason=f"this machine has only the layers {LOCKS}",
)
BRIEF = Sandbox(seconds=20, cpu=1, output=256 << 10)
TESTS = ("assert f(2) == 4", "assert f(-3) == 9", "assert f(0) == 0")


def verdict(source: str, *tests: str, setup: str = "", sandbox: Sandbox = BRIEF) -> UnitTestVerdict:
    return examine(source, tests or TESTS, setup, sandbox)


# ---------------------------------------------------------------- taking apart


def test_the_calls_of_the_solution_are_taken_out() -> None:
    taken = take_apart("assert sorted(f([3, 1])) == [1, len(g(2))]")
    assert taken.calls == ("f([3, 1])", "g(2)")
    assert taken.judged == "assert sorted(hocket_seen(0)) == [1, len(hocket_seen(1))]"


@pytest.mark.parametrize(
    ("test", "calls"),
    [
        ("assert f(f(2)) == 16", ["f(f(2))"]),
        ("assert not f('a', key=[1, (2,)])", ["f('a', key=[1, (2,)])"]),
        ("assert f([n * n for n in range(3)]) == 1", ["f([n * n for n in range(3)])"]),
        ("assert Solver(3).run(4) == 7", ["Solver(3).run(4)"]),
        ("assert f(2).strip() == 'a'", ["f(2)"]),
        ("assert math.isclose(f(2), 1.5)", ["f(2)"]),
        ("try:\n    f(-1)\nexcept ValueError:\n    pass\nelse:\n    assert False", ["f(-1)"]),
        ("x = f(2)\nassert x == 4", ["f(2)"]),
        ("assert adder(2)(3) == 5", ["adder(2)(3)"]),
        ("assert Solver(3).put(4).size == 2", ["Solver(3).put(4).size"]),
        ("assert sum(4) == 4", ["sum(4)"]),
        ("assert sum(f(4)) == 4", ["f(4)"]),
        ("assert f(helper(2)) == 4", ["f(helper(2))"]),
    ],
)
def test_what_is_a_call_of_the_solution(test: str, calls: list[str]) -> None:
    taken = take_apart(test, "import math\ndef helper(x): return x")
    assert list(taken.calls) == calls
    assert ast.unparse(ast.parse(taken.judged)).count("hocket_seen(") == len(calls)


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("f(2) == 4", "asserts nothing"),
        ("assert 1 == 1", "calls nothing"),
        ("assert [1] == [1]", "calls nothing"),
        ("assert f(2 ==", "cannot be read"),
        ("assert all(f(n) == n for n in range(3))", "variable 'n'"),
        ("x = 3\nassert f(x) == 9", "variable 'x'"),
        ("def check(g):\n    assert g(2) == 4\ncheck(f)", "calls nothing"),
    ],
)
def test_tests_that_cannot_be_judged_apart_are_refused(test: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        take_apart(test)


# ---------------------------------------------------------------- verdicts


@needs_sandbox
def test_right_and_wrong_solutions() -> None:
    assert verdict("def f(x): return x * x") == UnitTestVerdict((True, True, True))
    half = verdict("def f(x): return abs(x) * 2")
    assert half.passed == (True, False, True)
    assert half.share == pytest.approx(2 / 3)
    assert half.reason == "'assert f(-3) == 9': not so"
    assert "NameError" in str(verdict("def g(x): return x").reason)
    assert "SyntaxError" in str(verdict("def f(x) return x").reason)
    assert "ZeroDivisionError" in str(verdict("def f(x): return x / 0").reason)
    assert "function" in str(verdict("def f(x): return f").reason)
    assert "stopped" in str(verdict("def f(x):\n    while True: pass").reason)
    assert verdict("def f(x):\n    if x < 0: return 1 / 0\n    return x * x").passed == (True, False, True)


@needs_sandbox
def test_values_of_all_plain_kinds_come_back_as_they_are() -> None:
    values = ["None", "True", "-(10 ** 6000)", "1.5", "float('inf')", "'ä\\n\\ud800'", "b'\\x00'", "[1, [2]]", "(1,)",
              "{1, 2}", "frozenset({1})", "{'a': [1], 2: None}", "set()", "()", "{(1, 2): {'x': {3}}}"]  # fmt: skip
    # Equal values of another kind are told apart by their text.
    tests = [f"assert repr(f({n})) == repr({value})" for n, value in enumerate(values) if n != 2]
    source = f"import sys\nsys.set_int_max_str_digits(0)\ndef f(n): return [{', '.join(values)}][n]"
    assert all(verdict(source, *tests).passed)
    assert all(verdict(source, "assert f(2) == -(10 ** 6000)", "assert f(1) is True").passed)
    odd = "from collections import *\nfrom enum import *\nclass E(IntEnum):\n    a = 3\n"
    odd += "def f(n): return [Counter('aab'), defaultdict(int), OrderedDict(a=1), E.a, namedtuple('P', 'x')(1)][n]"
    told = ["{'a': 2, 'b': 1}", "{}", "{'a': 1}", "3", "(1,)"]
    assert all(verdict(odd, *(f"assert f({n}) == {value}" for n, value in enumerate(told))).passed)


@needs_sandbox
def test_long_results_are_no_output() -> None:
    tests = ["assert f(3000) == [i * i for i in range(3000)]", "assert f(2) == [0, 1]"]
    assert examine("def f(n): return [i * i for i in range(n)]", tests, "", BRIEF).passed == (True, True)


def test_setup_serves_both_sides() -> None:
    setup = "import math\ndef twice(x): return 2 * x"
    tests = ("assert math.isclose(f(2), math.pi * 4)", "assert twice(f(1)) > 6")
    assert verdict("def f(r): return math.pi * twice(r * r) / 2", *tests, setup=setup).passed == (True, True)


@needs_sandbox
def test_methods_of_an_object_made_on_the_spot() -> None:
    source = "class Solver:\n    def __init__(self, a): self.a = a\n    def run(self, b): return self.a + b"
    assert verdict(source, "assert Solver(3).run(4) == 7").passed == (True,)


CHEATS = {
    "exits": "import os\nos._exit(0)",
    "exits well": "import sys\nsys.exit(0)",
    "exits when called": "import os\ndef f(x): os._exit(0)",
    "raises SystemExit": "def f(x): raise SystemExit(0)",
    "raises AssertionError": "def f(x): raise AssertionError",
    "never ends": """
def f(x):
    while True:
        try:
            while True: pass
        except BaseException: pass
""",
    "equal to all": """
class E:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
def f(x): return E()
""",
    "an int equal to all": """
class E(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def f(x): return E(77)
""",
    "a str equal to all": """
class E(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
def f(x): return E('no')
""",
    "a list equal to all": """
class E(list):
    def __eq__(self, other): return True
def f(x): return E([8])
""",
    "patches builtins": """
import builtins
builtins.eval = lambda *a: True
builtins.compile = lambda *a, **k: None
builtins.isinstance = lambda *a: True
def f(x): return 1
""",
    "patches json": """
import json
json.dumps = lambda *a, **k: '[null, null, null]'
json.loads = lambda *a: [None] * 3
def f(x): return 1
""",
    "prints a verdict": """
import os
print([None, None, None])
for fd in range(9):
    try: os.write(fd, b'[null, null, null]\\n')
    except OSError: pass
def f(x): return 1
""",
    "writes many answers": """
import os, json
def f(x): return 1
for n in range(3):
    for v in range(100):
        line = (json.dumps([n, ['value', ['int', hex(v)]]]) + chr(10)).encode()
        for fd in range(3, 9):
            try: os.write(fd, line)
            except OSError: pass
""",
    "writes code as an answer": """
import os, json
def f(x): return 1
for told in (['value', ['__import__("os")', 1]], ['error', '__builtins__'], ['value', 4], 7, None):
    for fd in range(3, 9):
        try: os.write(fd, (json.dumps([0, told]) + chr(10)).encode())
        except OSError: pass
""",
    "looks for what is expected": """
import gc, sys
def f(x):
    wanted, seen, frame = chr(61) * 2 + chr(32), '', sys._getframe()
    while frame:
        seen += repr({name: value for name, value in frame.f_globals.items() if name != 'source'})
        frame = frame.f_back
    for held in gc.get_objects():
        if isinstance(held, (list, tuple, dict)) and held is not frame: seen += repr(held)[:2000]
    return 4 if wanted + str(2 + 2) in seen else 1
""",
    "reads the files": """
import os
def f(x):
    for root in ('/', '/tmp', '/proc/self', '.', '..'):
        try:
            if any('hocket' in name for name in os.listdir(root)): return 4
        except OSError: pass
    return 1
""",
    "changes the harness": """
import sys
space = sys._getframe().f_back.f_globals
space['plain'] = lambda value: True
space['calls'] = []
def f(x): return 1
""",
    "ends the process at exit": """
import atexit, os, sys
sys.settrace(lambda *a: None)
atexit.register(lambda: os._exit(0))
def f(x): return 1
""",
}


@needs_sandbox
@pytest.mark.parametrize("name", CHEATS)
def test_cheats_pass_nothing(name: str) -> None:
    found = verdict(CHEATS[name])
    assert found.passed == (False, False, False), found
    assert found.reason


@needs_sandbox
def test_a_flag_that_a_cheat_could_guess_still_has_to_be_right() -> None:
    tests = ("assert f(1)", "assert not f(2)")
    assert verdict("def f(x): return True", *tests).passed == (True, False)
    cheat = "class E:\n    n = 0\n    def __bool__(self):\n        E.n += 1\n        return E.n % 2 == 1\n"
    assert verdict(f"{cheat}def f(x): return E()", *tests).passed == (False, False)


PRINTED = {  # what is printed where "1\\n2\\n" is due, and whether it passes
    "1\\n2": True,
    "1 \\n2\\t\\n\\n": True,
    "1\\r\\n2\\r\\n": True,
    "1\\r2": False,
    "1\\x0b2": False,
    "1\\x0c2": False,
    "1\\x1c2": False,
    "1\\x852": False,
    "1\\u20282": False,
    "1\\n2\\u3000": False,
    "1\\n2\\xa0": False,
    "\\n1\\n2": False,
    "1\\n\\n2": False,
    "1.0\\n2": False,
    "01\\n2": False,
    "+1\\n2": False,
    "\\u0661\\n2": False,
    "1\\n2\\n3": False,
    "1 2": False,
}


@needs_sandbox
@pytest.mark.parametrize("text", PRINTED)
def test_what_is_printed_is_compared_line_by_line(text: str) -> None:
    tests = [{"input": "", "output": "1\n2\n"}, {"input": "", "output": "1\r\n2"}]
    assert examine(f"print('{text}', end='')", tests, "", BRIEF).passed == (PRINTED[text],) * 2


@needs_sandbox
def test_a_printed_answer_of_a_program_that_fails_does_not_count() -> None:
    for after in ("import sys; sys.exit(1)", "1 / 0", "raise SystemExit('no')", "import os; os._exit(3)",
                  "import os; os.kill(os.getpid(), 9)", "while True: pass"):  # fmt: skip
        found = examine(f"print(4, flush=True)\n{after}", [{"input": "", "output": "4"}], "", BRIEF)
        assert found.passed == (False,), after


@needs_sandbox
def test_setup_comes_before_a_program_that_prints() -> None:
    source = "from __future__ import annotations\nif __name__ == '__main__':\n    print(twice(int(input())))"
    found = examine(source, [{"input": "2", "output": "4"}], "def twice(x): return 2 * x", BRIEF)
    assert found.passed == (True,)


@needs_sandbox
def test_programs_that_read_and_print() -> None:
    tests = [{"input": "2 3\n", "output": "5\n"}, {"input": "-1 1", "output": "0"}]
    add = "import sys\na, b = map(int, input().split())\nprint(a + b, end='  \\n\\n')\nprint('noise', file=sys.stderr)"
    assert examine(add, tests, "", BRIEF) == UnitTestVerdict((True, True))
    main = f"if __name__ == '__main__':\n    {add.splitlines()[1]}\n    print(a + b)"
    assert examine(main, tests, "", BRIEF) == UnitTestVerdict((True, True))
    assert examine("print(5)", tests, "", BRIEF).passed == (True, False)
    failing = examine(f"{add}\n1 / 0", tests, "", BRIEF)
    assert failing.passed == (False, False)
    assert "ended with code 1" in str(failing.reason)
    assert "seconds" in str(examine("import time\ntime.sleep(60)", tests[:1], "", Sandbox(seconds=0.5)).reason)
    with pytest.raises(ConfigurationError, match="split them"):
        examine(add, ["assert f(1) == 1", tests[0]], "", BRIEF)
    with pytest.raises(ConfigurationError, match="text as input"):
        examine(add, [{"input": "1"}], "", BRIEF)


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("First ```py\na\n``` then\n```Python\nb = '``'\n  c\n```\nbye", "b = '``'\n  c\n"),
        ("<think>```python\nno\n```</think>```python\nyes\n```", "yes\n"),
        ("<code>x = 1</code>", "x = 1"),
        ("<answer>def f(): pass</answer>", "def f(): pass"),
        ("```python\ndraft\n```<answer>```python\nfinal\n```</answer>", "final\n"),
        ("```python\nfinal\n```<answer>see above</answer>", "final\n"),
        ("```python\nnever closed", None),
        ("def f(): pass", None),
        ("", None),
    ],
)
def test_the_program_in_an_answer(text: str, code: str | None) -> None:
    assert code_of(text) == code


@given(st.text(alphabet=st.sampled_from("`\n python<code></answer>x="), max_size=200))
@settings(deadline=500)
def test_looking_for_a_program_never_raises(text: str) -> None:
    found = code_of(text)
    assert found is None or found in text


def answered(text: str, **metadata: object) -> Trajectory:
    turn = Turn("a", "p", np.zeros(0, int), np.zeros(0, int), text=text)
    return Trajectory(Scenario("s", "?", metadata=metadata), [turn])


@needs_sandbox
def test_the_reward() -> None:
    good, half = "```python\ndef f(x): return x * x\n```", "```python\ndef f(x): return abs(x) * 2\n```"
    asked = [answered(text, tests=TESTS) for text in (good, half, "no program")] + [answered(good)]
    every = asyncio.run(CodeTests(sandbox=BRIEF)(asked, key=Key.of(0)))
    assert list(every) == [1.0, 0.0, 0.0, None]
    assert every.feedback[0] is None
    assert "f(-3)" in str(every.feedback[1])
    assert every.feedback[2] == "the answer holds no program"
    share = asyncio.run(CodeTests("share", sandbox=BRIEF)(asked, key=Key.of(0)))
    assert list(share) == [1.0, pytest.approx(2 / 3), 0.0, None]


def test_a_program_is_tried_once_for_all_answers_to_a_scenario_that_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def judged(reward: CodeTests, text: str, scenario: Scenario) -> UnitTestVerdict:
        tried.append(text)
        return UnitTestVerdict((text.endswith("2"), True))

    monkeypatch.setattr(CodeTests, "judge", judged)
    turn = answered("", tests=TESTS).turns[0]
    one, other = Scenario("s", "?", metadata={"tests": TESTS}), Scenario("s", "?", metadata={"tests": TESTS})
    said = [(one, "<code>1</code>"), (one, "<code>2</code> 2"), (one, "so <code>1</code>"), (other, "<code>1</code>")]
    asked = [Trajectory(scenario, [replace(turn, text=text)]) for scenario, text in said]
    assert list(asyncio.run(CodeTests("share")(asked, key=Key.of(0)))) == [0.5, 1.0, 0.5, 0.5]
    assert len(tried) == 3


def test_the_reward_is_a_setting_like_others() -> None:
    reward = CodeTests("share", Sandbox(cpu=2))
    plain = json.loads(json.dumps(to_plain(reward)))
    assert plain["sandbox"]["type"] == "hocket.agents.tools.Sandbox"
    assert from_plain(plain) == reward
    with pytest.raises(ConfigurationError, match="share or all"):
        CodeTests("most")  # type: ignore[arg-type]
