"""The two programs of `hocket.agents.tools.unit_tests`, which run in the sandbox: the solution's, and the judge's.

Between them a line per call travels, `[number, what came of it]`, of which there are three kinds:

    ["value", DATA]
    ["error", CLASSES, ARGUMENTS, TEXT, ATTRIBUTES, INSIDE]
    ["none", WHY]

CLASSES are those of the error, by `__mro__`, each as `[module, qualified name]`, or null for one of the solution's own.
So a test for `ValueError` meets every subclass of it, and none that is only called so. What is `none` fails its test,
and so does a call of which there is no line, or more than one: no handler in the test can catch that.
"""

from __future__ import annotations

ITEMS = 10_000
"""Items of an iterator that are carried over; of a longer one only the first `FIRST`."""

FIRST = 1000

_WALK = f"""
ITEMS, FIRST = {ITEMS}, {FIRST}

def walked(space, dotted):
    first, *others = dotted.split(".")
    value = space[first]
    for name in others:
        value = vars(value)[name]
    return value
"""

SOLUTION = (
    _WALK
    + r"""
import builtins, collections, enum, itertools, json, os, sys
from collections.abc import ItemsView, Iterator, KeysView, ValuesView

python, theirs = dict(vars(builtins)), {}
views = {type({}.keys()): "keys", type({}.values()): "values", type({}.items()): "items"}

def named(kind):
    # Where a class can be found by whoever does not know the solution: in setup, or in a module.
    dotted = type.__dict__["__qualname__"].__get__(kind)
    module = str(kind.__module__)
    loaded = vars(sys.modules[module]) if module in sys.modules and module != "solution" else {}
    for place, space in (("setup", theirs), ("builtins", python), (module, loaded)):
        try:
            if walked(space, dotted) is kind:
                return [place, dotted]
        except Exception:
            continue
    return None

def same_of(kind, base):
    # The class of setup that a class is, or is called as; a copy in the solution stands for it, since data alone go.
    try:
        counterpart = walked(theirs, kind.__qualname__)
        return kind.__qualname__ if issubclass(counterpart, base) else None
    except Exception:
        return None

def plain(value):
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if issubclass(kind, enum.Enum) and same_of(kind, enum.Enum):
        return ["member", same_of(kind, enum.Enum), value.name]
    for base, text in ((int, hex), (float, float.hex), (str, str.__str__), (bytes, bytes.hex)):
        if issubclass(kind, base):
            return [base.__name__, text(value)]
    if issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        return ["row", same_of(kind, tuple), kind.__name__, list(kind._fields), [plain(item) for item in tuple(value)]]
    if kind in views:
        return [views[kind], [plain(item) for item in value]]
    if issubclass(kind, type):
        place = named(value)
        if place is None:
            raise TypeError("a class of its own is no plain data")
        return ["class", *place]
    if ".".join(named(kind) or ()) in MADE:
        return made_of(value)
    if issubclass(kind, dict):
        return ["dict", [[plain(key), plain(item)] for key, item in dict.items(value)]]
    for base in (list, tuple, set, frozenset):
        if issubclass(kind, base):
            return [base.__name__, [plain(item) for item in base.__iter__(value)]]
    if issubclass(kind, Iterator):
        return iterated(value)
    if same_of(kind, object):
        state = dict(getattr(value, "__dict__", {}))
        for ancestor in kind.__mro__:
            slots = vars(ancestor).get("__slots__", ())
            state |= {name: getattr(value, name) for name in ([slots] if isinstance(slots, str) else slots)}
        return ["object", same_of(kind, object), [[str(name), plain(item)] for name, item in state.items()]]
    raise TypeError(kind.__name__ + " is no plain data")

def made_of(value):
    _, arguments, *rest = value.__reduce_ex__(2)
    _, items, pairs = [*rest, None, None, None][:3]
    if type(value).__name__ == "complex":
        arguments = value.real, value.imag
    more = [[plain(item) for item in items or ()], [[plain(key), plain(item)] for key, item in pairs or ()]]
    return ["made", ".".join(named(type(value))), [plain(item) for item in arguments], *more]

def iterated(value):
    items, end = [], ["end"]
    try:
        items = []
        for item in itertools.islice(value, ITEMS + 1):
            items.append(item)
    except BaseException as error:
        end = raised(error)
    if len(items) > ITEMS:
        items, end = items[:FIRST], ["none", "the solution's iterator goes on for long"]
    return ["iterator", [plain(item) for item in items], end]

def of_data(value):
    try:
        return [plain(value)]
    except Exception:
        return None

def raised(error):
    kind = type(error)
    if kind is RecursionError and str(error).startswith("maximum recursion") or kind is MemoryError and not error.args:
        return ["none", "the solution ran out of stack or memory"]
    group = issubclass(kind, BaseExceptionGroup)
    held = [[name, *of_data(item)] for name, item in vars(error).items() if of_data(item)]
    try:
        text = str(error)
    except Exception:
        text = None
    return [
        "error",
        [named(base) if issubclass(base, BaseException) else None for base in type.__dict__["__mro__"].__get__(kind)],
        of_data([error.message] if group else list(error.args)),
        text,
        [[name, item] for name, item in held if name.isidentifier()],
        [raised(inner) for inner in error.exceptions] if group else None,
    ]

def asked(call, root):
    if not callable(space.get(root)):
        return ["none", "NameError: the solution defines no " + root]
    try:
        value = eval(compile(call, "<call>", "eval", dont_inherit=True), space)
    except (NameError, AttributeError) as error:
        after = error.__traceback__.tb_next
        if after is None or after.tb_next is None:  # Raised by the call as it is written, not by what was called.
            return ["none", (type(error).__name__ + ": " + str(error))[:100]]
        return raised(error)
    except BaseException as error:
        return raised(error)
    try:
        return ["value", plain(value)]
    except BaseException as error:
        kind = type(value).__name__
        return ["none", "the solution gave a " + str(kind)[:40] + ", which is no plain data"]

report = os.fdopen(os.dup(1), "w")
os.dup2(0, 1)
os.dup2(0, 2)
space = {"__name__": "solution"}
failed = None
try:
    exec(compile(setup, "<setup>", "exec", dont_inherit=True), space)
    theirs.update(space)
    exec(compile(source, "<solution>", "exec", dont_inherit=True), space)
except BaseException as error:
    failed = ["none", ("the solution does not run: " + type(error).__name__ + ": " + str(error))[:100]]
for number, (call, root) in enumerate(zip(calls, roots)):
    try:
        came = failed or asked(call, root)
    except BaseException:
        came = ["none", "what came of the solution cannot be described"]
    report.write(json.dumps([number, came]) + "\n")
    report.flush()
"""
)
"""What the solution's process runs, after `source`, `setup`, `calls` and `roots`.

What the solution prints goes nowhere. One that writes lines itself, or changes what is written here, has to know the
right values all the same.
"""

_MADE = """
MADE = {
    "builtins.bytearray", "builtins.complex", "builtins.range", "builtins.slice",
    "collections.Counter", "collections.OrderedDict", "collections.deque",
    "datetime.date", "datetime.datetime", "datetime.time", "datetime.timedelta", "datetime.timezone",
    "decimal.Decimal", "fractions.Fraction", "pathlib.PosixPath", "pathlib.PurePosixPath",
}
"""
"""Classes of the standard library that come back as what they are, made anew from what they reduce to."""

SOLUTION = _MADE + SOLUTION

JUDGE = (
    _WALK
    + _MADE
    + r"""
import builtins, collections, importlib, json, sys

class NoAnswer(BaseException):
    pass

class Hearing:
    # What a test is given of the solution; `missing` says why it fails, whatever it makes of that.

    def __init__(self, start):
        self.start, self.missing, self.calls, self.space = start, None, 0, {"hocket_seen": self.seen}

    def none(self, why):
        self.missing = self.missing or str(why)[:200]
        raise NoAnswer

    def seen(self, place):
        self.calls += 1
        lines = came.get(self.start + place, [])
        if len(lines) != 1:
            self.none("the solution gave no answer")
        return self.outcome(lines[0], lambda: self.data(lines[0][1]))

    def outcome(self, line, value):
        try:
            if line[0] == "none":
                self.none(line[1])
            result = self.error(line) if line[0] == "error" else value()
        except NoAnswer:
            raise
        except BaseException:
            self.none("the solution gave no answer that can be read")
        if line[0] == "error":
            raise result
        return result

    def named(self, place, dotted):
        kind = walked(self.space if place == "setup" else vars(sys.modules[place]), dotted)
        if not isinstance(kind, type):
            raise TypeError
        return kind

    def data(self, item):
        if item is None or isinstance(item, bool):
            return item
        kind, *inside = item
        return getattr(self, "of_" + kind)(*inside)

    def every(self, items):
        return [self.data(item) for item in items]

    def of_int(self, text):
        return int(text, 16)

    def of_float(self, text):
        return float.fromhex(text)

    def of_str(self, text):
        return str(text)

    def of_bytes(self, text):
        return bytes.fromhex(text)

    def of_list(self, items):
        return self.every(items)

    def of_tuple(self, items):
        return tuple(self.every(items))

    def of_set(self, items):
        return set(self.every(items))

    def of_frozenset(self, items):
        return frozenset(self.every(items))

    def of_dict(self, pairs):
        return {self.data(key): self.data(item) for key, item in pairs}

    def of_keys(self, items):
        return dict.fromkeys(self.every(items)).keys()

    def of_values(self, items):
        return dict(enumerate(self.every(items))).values()

    def of_items(self, items):
        return dict(self.every(items)).items()

    def of_class(self, place, dotted):
        return self.named(place, dotted)

    def of_member(self, dotted, name):
        return self.named("setup", dotted)[name]

    def of_row(self, dotted, name, fields, items):
        kind = self.named("setup", dotted) if dotted else tuple
        if kind.__eq__ is not tuple.__eq__ or not hasattr(kind, "_fields"):
            kind = collections.namedtuple(name, fields, rename=True)
        return tuple.__new__(kind, self.every(items))

    def of_object(self, dotted, pairs):
        kind = self.named("setup", dotted)
        # What setup says of equality may be bent by a state chosen for it, such as a tolerance; a dataclass's may not.
        if kind.__eq__ is not object.__eq__ and kind.__eq__.__code__.co_filename != "<string>":
            raise TypeError
        made = object.__new__(kind)
        self.give(made, [(name, self.data(item)) for name, item in pairs])
        return made

    def give(self, made, pairs):
        # Attributes, without those by which Python knows an object.
        for name, value in pairs:
            if not name.startswith("__") or name == "__notes__":
                object.__setattr__(made, name, value)

    def of_made(self, dotted, arguments, items, pairs):
        if dotted not in MADE:
            raise TypeError
        module, _, name = dotted.rpartition(".")
        made = getattr(importlib.import_module(module), name)(*self.every(arguments))
        for item in items:
            made.append(self.data(item))
        for key, item in pairs:
            made[self.data(key)] = self.data(item)
        return made

    def of_iterator(self, items, end):
        values = self.every(items)

        def iterated():
            yield from values
            if end != ["end"]:
                self.outcome(end, lambda: None)

        return iterated()

    def or_none(self, item):
        # What names a class of a module that is not loaded here is left out of an error.
        try:
            return [self.data(item)]
        except Exception:
            return None

    def error(self, line):
        _, classes, arguments, text, held, inside = line
        known = []
        for place, names in enumerate(classes):
            try:
                ancestor = self.named(*names)
            except Exception:
                continue
            if issubclass(ancestor, BaseException) and not any(issubclass(other, ancestor) for other in known):
                known.append(ancestor)
                exact = len(known) == 1 and place == 0
        values = self.or_none(arguments[0]) if arguments else None
        kind = known[0]
        if values is None or not exact:
            kind = type("Raised", tuple(known), {} if text is None else {"__str__": lambda error: text})
        values = values[0] if values else []
        if inside is not None:
            values = [*values, [self.error(inner) for inner in inside]]
        try:
            if hasattr(kind.__init__, "__code__"):  # It may want other arguments than those that it kept.
                raise TypeError
            made = kind(*values)
        except Exception:
            made = kind.__new__(kind, *values)
        self.give(made, [(name, *value) for name, item in held if (value := self.or_none(item))])
        return made

came = {}
for line in outcomes:
    try:
        number, outcome = json.loads(line)
        came.setdefault(number, []).append(outcome)
    except Exception:
        continue

reasons = []
for test, start in zip(tests, starts):
    hearing, reason = Hearing(start), None
    try:
        exec(compile(setup, "<setup>", "exec", dont_inherit=True), hearing.space)
        hearing.space["hocket_seen"] = hearing.seen
        exec(compile(test, "<test>", "exec", dont_inherit=True), hearing.space)
        if not hearing.calls:
            reason = "the test never comes to call the solution"
    except AssertionError:
        reason = "not so"
    except BaseException as error:
        try:
            reason = (type(error).__name__ + ": " + str(error))[:100]
        except BaseException:
            reason = "an error"
    reasons.append(hearing.missing or reason)
print()
print(json.dumps(reasons))
"""
)
"""What the judge's process runs, after `setup`, `tests`, `starts` and `outcomes`; it prints why tests fail."""
