"""What comes of a solution's calls: errors by their classes, values of many kinds, and no answer at all."""

from __future__ import annotations

import pytest

from hocket.agents.tools.sandbox import Sandbox, available
from hocket.agents.tools.unit_tests import UnitTestVerdict, examine

LOCKS = available()[0]
needs_sandbox = pytest.mark.skipif(
    not {"limits", "seccomp"} <= set(LOCKS) or not {"namespaces", "landlock"} & set(LOCKS),
    reason=f"this machine has only the layers {LOCKS}",
)
BRIEF = Sandbox(seconds=20, cpu=1, output=256 << 10)


def verdict(source: str, *tests: str, setup: str = "") -> UnitTestVerdict:
    return examine(source, tests, setup, BRIEF)


def expects(kind: str, call: str = "f(-1)", then: str = "pass") -> str:
    return f"try:\n    {call}\nexcept {kind} as error:\n    {then}\nelse:\n    assert False"


SETUP = """
import asyncio, contextlib, dataclasses, decimal, enum, json, subprocess, typing, zlib
class Mine(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code
class Other(Mine): pass
"""

RAISED = {  # a program, and which of the handlers meet its error, as Python itself has it
    "plain": ("def f(x): raise ValueError('negative')", "ValueError Exception BaseException (KeyError,ValueError)"),
    "a library's": ("import json\ndef f(x): return json.loads('{')", "ValueError json.JSONDecodeError Exception"),
    "codec": ("def f(x): return b'\\xff'.decode()", "ValueError UnicodeError UnicodeDecodeError"),
    "own": ("class E(ValueError): pass\ndef f(x): raise E('x')", "ValueError Exception"),
    "own of two": ("class E(KeyError, OSError): pass\ndef f(x): raise E(1)", "KeyError LookupError OSError"),
    "own with arguments": (
        "class E(LookupError):\n    def __init__(s, a, b): s.a = a\ndef f(x): raise E(1, object())",
        "LookupError",
    ),
    "decimal": ("import decimal\ndef f(x): return decimal.Decimal('x')", "ArithmeticError decimal.InvalidOperation"),
    "system": ("def f(x): open('/nowhere/x')", "OSError FileNotFoundError EnvironmentError"),
    "of setup": ("def f(x): raise Mine(3)", "Mine Exception"),
    "of setup, further": ("def f(x): raise Other(3)", "Mine Other"),
    "from one of setup": ("class E(Other): pass\ndef f(x): raise E(3)", "Mine Other"),
    "a group": ("def f(x): raise ExceptionGroup('a', [ValueError(), Mine(1)])", "ExceptionGroup Exception"),
    "exit": ("def f(x): raise SystemExit(2)", "SystemExit BaseException"),
    "assertion": ("def f(x): assert x > 0", "AssertionError"),
    "while it iterates": ("def f(x):\n    yield 1\n    raise ValueError", "ValueError"),
}
HANDLERS = [
    *("ValueError", "KeyError", "(KeyError,ValueError)", "LookupError", "OSError", "FileNotFoundError"),
    *("EnvironmentError", "RuntimeError", "TypeError", "UnicodeError", "UnicodeDecodeError", "json.JSONDecodeError"),
    *("ArithmeticError", "decimal.InvalidOperation", "Mine", "Other", "ExceptionGroup", "SystemExit"),
    *("AssertionError", "Exception", "BaseException"),
]


@needs_sandbox
@pytest.mark.parametrize("name", RAISED)
def test_a_handler_meets_the_errors_that_it_meets_in_python(name: str) -> None:
    source, listed = RAISED[name]
    met = set(listed.split())
    call = "list(f(-1))" if "yield" in source else "f(-1)"
    space: dict[str, object] = {}
    exec(SETUP, space)
    exec(source, space)
    for kind in HANDLERS:
        try:
            exec(expects(kind, call), dict(space))
            passes = True
        except BaseException:
            passes = False
        assert passes >= (kind in met)
        met |= {kind} if passes else set()
    found = verdict(source, *(expects(kind, call) for kind in HANDLERS), setup=SETUP)
    assert {kind for kind, passed in zip(HANDLERS, found.passed, strict=True) if passed} == met, found


@needs_sandbox
def test_what_an_error_holds_comes_along() -> None:
    source = "import json\nclass E(ValueError):\n    def __str__(self): return 'odd ' + repr(self.args)\n"
    source += "def f(x): raise [ValueError('negative', 3), Mine(7), KeyError('k'), E(1), OSError(2, 'gone')][x]\n"
    source += "def g(x): raise ExceptionGroup('many', [ValueError('a'), Mine(4)])\ndef h(x): json.loads('[1,')"
    tests = (
        expects("ValueError", "f(0)", "assert error.args == ('negative', 3) and type(error) is ValueError"),
        expects("Mine", "f(1)", "assert error.code == 7 and str(error) == 'code 7' and type(error) is Mine"),
        expects("KeyError", "f(2)", "assert error.args == ('k',)"),
        expects("ValueError", "f(3)", "assert str(error) == 'odd (1,)' and type(error) is not ValueError"),
        expects("OSError", "f(4)", "assert error.errno == 2 and type(error) is FileNotFoundError"),
        expects("ExceptionGroup", "g(0)", "assert error.exceptions[1].code == 4 and 'many' in str(error)"),
        "try:\n    g(0)\nexcept* Mine:\n    pass\nexcept* ValueError:\n    pass\nelse:\n    assert False",
        expects("json.JSONDecodeError", "h(0)", "assert (error.pos, error.doc) == (3, '[1,')"),
    )
    assert verdict(source, *tests, setup=SETUP).passed == (True,) * 8


NO_ANSWER = {
    "nothing": "",
    "another name": "def g(x): raise ValueError",
    "no function": "f = 3",
    "exits": "import os\nos._exit(0)",
    "exits when called": "import os\ndef f(x): os._exit(0)",
    "exits at exit": "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit",
    "raises before it is called": "raise ValueError",
    "leaves before it is called": "raise SystemExit",
    "is no Python": "def f(:",
    "closes everything": "import os\ndef f(x): os.closerange(0, 99)",
    "closes the report": "import gc, io\ndef f(x):\n    for o in gc.get_objects():\n"
    "        if isinstance(o, io.IOBase): o.close()",
    "never ends": "def f(x):\n    while True: pass",
    "calls itself for ever": "def f(x): return f(x)",
    "eats all memory": "def f(x): return [0] * (1 << 40)",
    "returns an object": "def f(x): return object()",
    "returns a function": "def f(x): return f",
    "returns a module": "import json\ndef f(x): return json",
    "returns an error": "def f(x): return ValueError()",
    "returns what holds itself": "def f(x):\n    a = []\n    a.append(a)\n    return a",
    "returns too much": "def f(x): return ['a' * 99] * 9999",
    "returns what hides": "class A:\n    def __getattribute__(s, n): raise ValueError\ndef f(x): return A()",
    "iterates for ever": "import itertools\ndef f(x): return itertools.count()",
    "writes no line": "import os\ndef f(x):\n    for d in range(3, 9):\n        try: os.write(d, b'[0, ')\n"
    "        except OSError: pass",
    "writes a second line": "import os\ndef f(x):\n    for d in range(3, 9):\n        try: os.write(d, b'[0, "
    '["error", [["builtins", "ValueError"]], null, "", [], null]]\\n\')\n        except OSError: pass\n    return 1',
    "writes what cannot be read": "import os\ndef f(x):\n    for d in range(3, 9):\n        try: os.write(d, b'[0, "
    '["value", ["int", "z"]]]\\n\')\n        except OSError: pass\n    os._exit(0)',
    "writes an error of no class": "import os\ndef f(x):\n    for d in range(3, 9):\n        try: os.write(d, b'[0, "
    '["error", [], null, "", [], null]]\\n\')\n        except OSError: pass\n    os._exit(0)',
}


@needs_sandbox
@pytest.mark.parametrize("name", NO_ANSWER)
def test_no_handler_of_a_test_catches_that_there_is_no_answer(name: str) -> None:
    call = "list(f(-1))" if "itertools" in NO_ANSWER[name] else "f(-1)"
    tests = [expects(kind, call) for kind in ("Exception", "BaseException", "(NameError, TypeError, ValueError)")]
    tests += [f"while True:\n    try:\n        {call}\n    except:\n        pass\n    assert True\n    break"]
    tests += [f"try:\n    {call}\nexcept:\n    pass\nassert True"]
    for several in ([one] for one in tests) if "[0, " in NO_ANSWER[name] else [tests]:
        found = verdict(NO_ANSWER[name], *several)
        assert not any(found.passed), found
        assert found.reason


ODD = {
    "fractions": ("import fractions\ndef f(x): return fractions.Fraction(3, 2)", "assert f(2) == 1.5"),
    "decimals": ("import decimal\ndef f(x): return decimal.Decimal('1.5')", "assert f(2) * 2 == 3"),
    "complex": ("def f(x): return complex(-0.0, 3)", "assert f(2) == 3j"),
    "ranges": ("def f(x): return range(1, 9, 3)", "assert f(2) == range(1, 8, 3) and 7 in f(2)"),
    "dates": (
        "import datetime\ndef f(x): return datetime.date(2024, 2, 29)",
        "assert f(2).isoformat() == '2024-02-29'",
    ),
    "times": ("import datetime\ndef f(x): return datetime.timedelta(1)", "assert f(2).total_seconds() == 86400"),
    "counters": (
        "import collections\ndef f(x): return collections.Counter('aab')",
        "assert f(2).most_common(1) == [('a', 2)]",
    ),
    "queues": (
        "import collections\ndef f(x): return collections.deque([1, 2], 2)",
        "assert f(2).maxlen == 2 and list(f(2)) == [1, 2]",
    ),
    "in order": (
        "import collections\ndef f(x): return collections.OrderedDict(b=1, a=2)",
        "assert list(f(2).items()) == [('b', 1), ('a', 2)]",
    ),
    "bytearrays": ("def f(x): return bytearray(b'ab')", "assert f(2) == b'ab'"),
    "generators": ("def f(x): yield from (1, 2)", "assert list(f(2)) == [1, 2] and next(f(2)) == 1 and f(2) != [1, 2]"),
    "endless ones": (
        "import itertools\ndef f(x): return itertools.count(3)",
        "assert [n for n, _ in zip(f(2), 'ab')] == [3, 4]",
    ),
    "maps": ("def f(x): return map(str, [1, 2])", "assert ''.join(f(2)) == '12'"),
    "own iterators": (
        "class I:\n    n = 0\n    def __iter__(s): return s\n    def __next__(s):\n        s.n += 1\n"
        "        if s.n > 2: raise StopIteration\n        return s.n\ndef f(x): return I()",
        "assert sum(f(2)) == 3",
    ),
    "views": (
        "def f(x): return {1: 2}.keys(), {1: 2}.values(), {1: 2}.items()",
        "k, v, i = f(2)\nassert k == {1} and list(v) == [2] and i == {(1, 2)}",
    ),
    "rows": (
        "import collections\ndef f(x): return collections.namedtuple('P', 'a b')(1, 2)",
        "assert f(2).b == 2 and f(2) == (1, 2)",
    ),
    "classes": ("def f(x): return [int, type(None).__class__]", "assert f(2) == [int, type]"),
    "closures": ("def f(x): return lambda y: x + y", "assert f(2)(3) == 5"),
    "attributes": (
        "class F:\n    def __init__(s, x): s.x = x\n    def up(s): s.x += 1; return s",
        "assert F(2).up().up().x == 4",
    ),
    "helpers of a built-in name": ("def sorted(x): return 3", "assert sorted([2]) == 3"),
    "nodes of setup": (
        "def f(x):\n    return Node(1, Node(x))",
        "assert f(2).next.value == 2 and f(2).next.next is None",
    ),
    "nodes written again": (
        "class Node:\n    def __init__(s, v, n): s.value, s.next = v, n\ndef f(x): return Node(x, None)",
        "assert total(f(2)) == 2",
    ),
    "dataclasses of setup": ("def f(x): return Point(1, x)", "assert f(2) == Point(1, 2) and f(2) != Point(2, 2)"),
    "rows of setup": ("def f(x): return Row(1, x)", "assert f(2).b == 2 and isinstance(f(2), Row)"),
    "members of setup": (
        "def f(x): return [Colour.RED, {Colour.BLUE: 1}]",
        "assert f(2) == [Colour.RED, {Colour.BLUE: 1}]",
    ),
}

KINDS = """
import dataclasses, enum, typing
class Node:
    def __init__(self, value, next=None): self.value, self.next = value, next
def total(node): return node.value + total(node.next) if node else 0
@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int
class Row(typing.NamedTuple):
    a: int
    b: int
class Colour(enum.Enum):
    RED = 1
    BLUE = 2
class Near:
    def __init__(self, value, by): self.value, self.by = value, by
    def __eq__(self, other): return abs(self.value - other) <= self.by
"""


@needs_sandbox
@pytest.mark.parametrize("name", ODD)
def test_what_is_more_than_plain_comes_back_as_what_it_is(name: str) -> None:
    source, test = ODD[name]
    assert verdict(source, test, setup=KINDS) == UnitTestVerdict((True,))


@needs_sandbox
def test_no_class_bends_a_verdict() -> None:
    tests = ("assert f(2) == 4", expects("RuntimeError"), "assert not f(2) != 4", "assert f(2) in (4, 5)")
    cheats = (
        "def f(x): return Near(0, float('inf'))",
        "class ValueError(Exception): pass\ndef f(x): raise ValueError",
        "class RuntimeError(Exception): pass\ndef f(x): raise RuntimeError",
        "class E(Exception): pass\nE.__name__ = E.__qualname__ = 'RuntimeError'\nE.__module__ = 'builtins'\n"
        "def f(x): raise E",
        "class E(Exception):\n    __class__ = RuntimeError\ndef f(x): raise E",
        "class M(type):\n    __mro__ = (RuntimeError,)\n    def mro(c): return (c, Exception, BaseException, object)\n"
        "class E(Exception, metaclass=M): pass\ndef f(x): raise E",
        "class A:\n    __class__ = int\n    def __eq__(s, o): return True\ndef f(x): return A()",
        "class A(float):\n    def __eq__(s, o): return True\n    def __sub__(s, o): return 0.0\ndef f(x): return A(7)",
        "class A(list):\n    def __iter__(s): return iter([4])\n    def __eq__(s, o): return 1\ndef f(x): return A()",
    )
    for source in cheats:
        assert not any(verdict(source, *tests, setup=KINDS).passed), source


@needs_sandbox
def test_a_test_that_never_calls_the_solution_is_not_passed() -> None:
    found = verdict(
        "def f(x): return 4", "def check():\n    assert f(2) == 4", "def check():\n    assert f(2) == 4\ncheck()"
    )
    assert found.passed == (False, True)
    assert "never comes to call" in str(found.reason)
