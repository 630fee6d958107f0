"""The journal, the ledger and the locks: what must outlive a crash."""

import json
import math
import multiprocessing
import os
import signal
import threading
import time

import pytest

from hocket.core.errors import HocketError
from hocket.stages import LedgerView
from hocket.train.journal import MISSING, Journal
from hocket.train.ledger import REMEMBERED, Ledger


def test_results_are_replayed(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    values = {"a": None, "b": [1, {"x": "é"}], "c": math.nan, "d": -math.inf, "e": 10**30, "": "empty", "f": False}
    for key, value in values.items():
        assert journal.get(key) is MISSING
        journal.put(key, value)
    again = Journal(path)  # the first was never closed, as after a kill
    for key, value in values.items():
        found = again.get(key)
        assert found == value or math.isnan(found)
    assert again.get("unknown") is MISSING
    assert len(again) == len(values)


def test_what_is_put_is_seen_as_a_replay_sees_it(tmp_path):
    journal = Journal(tmp_path / "j")
    given = {"words": ("a", "b"), 1: [2]}
    seen = journal.put("k", given)
    assert seen == {"words": ["a", "b"], "1": [2]} == journal.get("k") == Journal(tmp_path / "j").get("k")
    seen["words"].append("c")
    assert journal.get("k")["words"] == ["a", "b"]


def test_a_later_entry_wins(tmp_path):
    journal = Journal(tmp_path / "j")
    journal.put("k", 1)
    journal.put("k", 2)
    assert Journal(tmp_path / "j").get("k") == 2


def test_any_torn_last_line_is_cut_off(tmp_path):
    path = tmp_path / "j"
    journal = Journal(path)
    journal.put("first", "é" * 3)
    whole = path.read_bytes()
    journal.put("second", [1.5, "∞"])
    line = path.read_bytes()[len(whole) :]
    journal.close()
    for cut in range(len(line) + 1):
        path.write_bytes(whole + line[:cut])
        again = Journal(path)
        assert again.get("first") == "ééé"
        # Without only its newline the line is whole.
        assert (again.get("second") is not MISSING) == (cut >= len(line) - 1)
        again.put("third", 3)
        again.close()
        rows = [json.loads(row) for row in path.read_text().splitlines()]
        assert rows[-1] == {"key": "third", "value": 3}
        assert len(rows) == 2 + (cut >= len(line) - 1)


def test_foreign_lines_do_no_harm(tmp_path):
    path = tmp_path / "j"
    path.write_bytes(b'{"key": "a", "value": 1}\n\xff\xfe\n[]\n{"other": 1}\n\n{"key": "b", "value": 2}\n')
    journal = Journal(path)
    assert (journal.get("a"), journal.get("b"), len(journal)) == (1, 2, 2)


def test_what_is_no_json_is_refused(tmp_path):
    journal = Journal(tmp_path / "j")
    with pytest.raises(HocketError, match="'tool/3' cannot be journalled"):
        journal.put("tool/3", {1, 2})
    assert journal.get("tool/3") is MISSING
    assert (tmp_path / "j").read_bytes() == b""


def test_a_full_disk_leaves_the_earlier_lines(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "j")
    journal.put("a", 1)
    real, calls = os.write, []

    def write(handle, data):
        calls.append(data)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(handle, data[:7])

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(HocketError, match="No space left on device"):
        journal.put("b", 2)
    monkeypatch.undo()
    assert journal.get("b") is MISSING
    journal.put("c", 3)
    again = Journal(tmp_path / "j")
    assert [again.get(key) for key in "abc"] == [1, MISSING, 3]


def test_lines_that_cannot_be_read_are_counted_and_their_answers_missed(tmp_path):
    journal, problems = Journal(tmp_path / "j"), []
    for key in "abcd":
        journal.put(key, key)
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"value"', b'"vale"')
    lines[2] = b"\xff" + lines[2]
    lines.append(b'{"key": "e", "val')  # Torn by a kill: the answer had not been used.
    (tmp_path / "j").write_bytes(b"".join(lines))
    again = Journal(tmp_path / "j", problems.append)
    assert [again.get(key) for key in "abcde"] == ["a", MISSING, MISSING, "d", MISSING]
    assert problems == [
        f"{tmp_path / 'j'}: lines 2, 3 cannot be read and are left out; these answers are requested again"
    ]


def _put_for_ever(path, ready):
    journal = Journal(path)
    for number in range(10**9):
        journal.put(str(number), {"number": number, "text": "x" * 300})
        ready.value = number


def test_nothing_put_is_lost_by_a_kill(tmp_path):
    context = multiprocessing.get_context("fork")
    ready = context.Value("q", -1, lock=False)
    child = context.Process(target=_put_for_ever, args=(tmp_path / "j", ready))
    child.start()
    while ready.value < 200:
        time.sleep(0.005)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    journal = Journal(tmp_path / "j")
    assert all(journal.get(str(number))["number"] == number for number in range(ready.value + 1))


def test_threads_do_not_mix_lines(tmp_path):
    journal = Journal(tmp_path / "j")

    def work(name):
        for number in range(50):
            journal.put(f"{name}/{number}", name * 100)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    again = Journal(tmp_path / "j")
    assert len(again) == 200
    assert all(again.get(f"{name}/{n}") == name * 100 for name in "abcd" for n in range(50))


# ---------------------------------------------------------------- the ledger


def test_the_ledger_keeps_group_means_in_order():
    ledger = Ledger()
    assert isinstance(ledger, LedgerView)
    for step, rewards in enumerate([[1.0, 0.0, None], [0.5], [math.nan], [1.0, 1.0]], start=1):
        for reward in rewards:
            ledger.record("a", step, reward)
        ledger.record("b", step, 0.25)
    assert ledger.history("a") == (0.5, 0.5, 1.0)
    assert ledger.history("b") == (0.25,) * 4
    assert ledger.history("never") == ()
    entry = ledger.entry("a")
    assert (entry.groups, entry.samples, entry.step) == (4, 5, 4)


def test_the_ledger_is_bounded_and_restored():
    ledger = Ledger()
    for step in range(1, 50):
        ledger.record("a", step, float(step))
        if step % 7 == 0:
            ledger.record(f"b{step}", step, None)
    assert ledger.history("a") == tuple(float(step) for step in range(50 - REMEMBERED, 50))
    other = Ledger()
    other.restore(ledger.state())
    assert other.history("a") == ledger.history("a")
    for book in (ledger, other):
        book.record("a", 49, 1.0)
        book.record("b7", 50, 3.0)
    assert str(other.state()) == str(ledger.state())
    empty = Ledger()
    empty.restore(Ledger().state())
    assert len(empty) == 0
