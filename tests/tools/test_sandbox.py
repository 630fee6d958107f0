"""Programs that try to get out of the sandbox, or to harm what is outside."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hocket.agents.tools import sandbox as module
from hocket.agents.tools.sandbox import LAYERS, ProgramResult, Sandbox, available
from hocket.core.errors import ConfigurationError

LOCKS = available()[0]
CONFINED = {"limits", "seccomp"} <= set(LOCKS) and bool({"namespaces", "landlock"} & set(LOCKS))
pytestmark = pytest.mark.skipif(not CONFINED, reason=f"this machine has only the layers {LOCKS}")

WAYS = [
    pytest.param(Sandbox(without=without), id=name)
    for name, without in {"all": (), "namespaces": ("landlock",), "landlock": ("namespaces",)}.items()
    if {"namespaces", "landlock"} & (set(LOCKS) - set(without))
]
every_way = pytest.mark.parametrize("sandbox", WAYS)
patiently = pytest.mark.parametrize(
    "sandbox", [*WAYS[:1], *(pytest.param(*way.values, id=way.id, marks=pytest.mark.slow) for way in WAYS[1:])]
)
"""Where a limit of seconds is waited for: the way that programs are run, and with the slow tests the others."""


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sessions of all programs started meanwhile; afterwards none may have a process left."""
    started: list[int] = []
    plain = subprocess.Popen

    def watched(*args: object, **kwargs: object) -> object:
        process = plain(*args, **kwargs)  # type: ignore[call-overload]
        started.append(process.pid)
        return process

    monkeypatch.setattr(module.subprocess, "Popen", watched)
    yield started
    assert started
    assert left_of(started) == []


def left_of(sessions: list[int]) -> list[str]:
    """Processes of these sessions that still live."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) in sessions:
            found.append(stat.parent.name)
    return found


def refused(sandbox: Sandbox, *attempts: str, setup: str = "pass") -> ProgramResult:
    """Runs all attempts in one program; each must raise one of the errors of refusal."""
    lines = [setup]
    for attempt in attempts:
        body = attempt.replace("\n", "\n    ")
        lines.append(
            f"try:\n    {body}\nexcept (OSError, RuntimeError, MemoryError, ValueError) as error:\n"
            f"    print('refused', type(error).__name__)\nelse:\n    print('DONE', {attempt!r})"
        )
    result = sandbox.run_now("\n".join(lines))
    assert result.well, result.output
    assert result.output.count("refused") == len(attempts), result.output
    assert "DONE" not in result.output
    return result


def lives(process: subprocess.Popen[bytes]) -> bool:
    time.sleep(0.05)
    return process.poll() is None


@pytest.fixture
def canary() -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours that no program may touch."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


# ---------------------------------------------------------------- what works


@every_way
def test_what_a_program_prints_comes_back(sandbox: Sandbox) -> None:
    assert sandbox.run_now("print('a' + 'b')") == ProgramResult("ab\n", 0)
    assert sandbox.run_now("x = 6\nx * 7", echo=True) == ProgramResult("42\n", 0)
    assert sandbox.run_now("x = 6\nx * 7") == ProgramResult("", 0)
    assert sandbox.run_now("None", echo=True) == ProgramResult("", 0)
    assert sandbox.run_now("import sys; sys.exit(3)") == ProgramResult("", 3)
    assert sandbox.run_now("", echo=True) == ProgramResult("", 0)


@every_way
def test_the_library_can_be_imported(sandbox: Sandbox) -> None:
    names = "math, json, re, itertools, fractions, decimal, statistics, random, datetime, hashlib, sqlite3, zlib, bz2"
    assert sandbox.run_now(f"import {names}\nprint(random.Random(0).random() < 1)").output == "True\n"


@every_way
def test_an_error_is_shown_with_the_line_of_the_program(sandbox: Sandbox) -> None:
    result = sandbox.run_now("def f(x):\n    return 1 / x\n\nprint('before')\nf(0)")
    assert result.code == 1
    assert not result.well
    assert result.output.startswith("before\n")
    assert "return 1 / x" in result.output
    assert result.output.endswith("ZeroDivisionError: division by zero\n")
    assert "child" not in result.output
    assert "SyntaxError" in sandbox.run_now("x = = 1").output
    assert sandbox.run_now("print('\\0')\n\0").code == 1
    assert sandbox.run_now("raise KeyboardInterrupt").code == 1


@every_way
def test_equal_programs_print_equal_things(sandbox: Sandbox) -> None:
    program = "print({str(n) for n in range(50)})"
    assert len({sandbox.run_now(program).output for _ in range(3)}) == 1


@every_way
def test_input_is_what_was_given_and_not_the_order(sandbox: Sandbox) -> None:
    assert sandbox.run_now("print(input()[::-1])", input="abc\n").output == "cba\n"
    assert sandbox.run_now("import sys; print(repr(sys.stdin.read()))").output == "''\n"
    again = "import os, sys\nsys.stdin.read()\ntry:\n    os.lseek(0, 0, 0)\nexcept OSError: pass\nprint(os.read(0, 9))"
    assert sandbox.run_now(again, input="seen").output == "b'seen'\n"
    assert sandbox.run_now(again).output == "b''\n"


def test_folders_that_are_named_can_be_imported_from(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "helper.py").write_text("value = 42")
    (tmp_path / "hidden.txt").write_text("no")
    sandbox = Sandbox(paths=(str(tmp_path / "own"),))
    assert sandbox.run_now("import helper; print(helper.value)").output == "42\n"
    refused(sandbox, f"open({str(tmp_path / 'hidden.txt')!r})", f"open({str(tmp_path / 'own' / 'new')!r}, 'w')")


@pytest.mark.skipif("namespaces" not in LOCKS, reason="needs namespaces")
def test_files_can_be_written_in_the_own_folder() -> None:
    program = "import os\nopen('a', 'w').write('x')\nos.mkdir('b')\nos.rename('a', 'b/a')\nprint(os.listdir('b'))"
    assert Sandbox().run_now(program).output == "['a']\n"
    assert Sandbox().run_now("import os; print(os.listdir('.'))").output == "[]\n"


# ---------------------------------------------------------------- processes


@every_way
def test_no_process_can_be_started(sandbox: Sandbox, sessions: list[int]) -> None:
    refused(
        sandbox,
        "os.fork()",
        "os.forkpty()",
        "subprocess.run(['/bin/true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.execv('/bin/true', ['true'])",
        "os.setsid()",
        "os.setpgid(0, 0)",
        "threading.Thread(target=print).start()",
        "os.nice(-5)",
        "os.sched_setaffinity(0, {0})",
        "ProcessPoolExecutor(1).submit(int).result()",
        setup="import os, subprocess, threading\nfrom concurrent.futures import ProcessPoolExecutor",
    )
    assert sandbox.run_now("import os; print(os.system('true'))").output.strip() != "0"


@every_way
def test_a_fork_bomb_does_not_go_off(sandbox: Sandbox, sessions: list[int]) -> None:
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert Sandbox(cpu=1, without=sandbox.without).run_now(bomb).ending in ("cpu", "seconds")
    threads = "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(9,)).start()"
    assert "RuntimeError" in sandbox.run_now(threads).output


@patiently
def test_nothing_outlives_the_program(sandbox: Sandbox, sessions: list[int]) -> None:
    escape = (
        "import os, time\ntry:\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork(): os._exit(0)\n"
        "        time.sleep(60)\nexcept OSError: print('held')"
    )
    assert sandbox.run_now(escape).output == "held\n"
    deaf = "import signal, time\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
    deaf += "    except OSError: pass\n"
    brief = Sandbox(seconds=1.5, without=sandbox.without)
    assert brief.run_now(deaf + "print('deaf', flush=True)\ntime.sleep(60)") == ProgramResult("deaf\n", 137, "seconds")
    assert brief.run_now("import os, time\nos.close(1); os.close(2)\ntime.sleep(60)").ending == "seconds"


@every_way
def test_nobody_outside_can_be_signalled(
    sandbox: Sandbox, sessions: list[int], canary: subprocess.Popen[bytes]
) -> None:
    numbers = (canary.pid, os.getpid(), -1, 0)
    kills = [f"os.kill({number}, signal.SIGKILL)" for number in numbers]
    refused(
        sandbox,
        *kills,
        "os.kill(os.getppid(), signal.SIGKILL)",
        f"os.killpg({os.getpgrp()}, signal.SIGKILL)",
        f"signal.pidfd_send_signal(os.pidfd_open({canary.pid}), signal.SIGKILL)",
        f"fcntl.fcntl(1, fcntl.F_SETOWN, {canary.pid})",
        "fcntl.fcntl(1, fcntl.F_SETFL, os.O_ASYNC)",
        f"resource.prlimit({canary.pid}, resource.RLIMIT_CPU, (1, 1))",
        setup="import os, signal, fcntl, resource",
    )
    assert lives(canary)


@every_way
def test_a_program_may_end_itself_only(sandbox: Sandbox, sessions: list[int]) -> None:
    assert sandbox.run_now("import os; os.abort()").code > 128
    assert sandbox.run_now("import ctypes; ctypes.string_at(0)").code > 128


# ---------------------------------------------------------------- files


@every_way
def test_files_outside_cannot_be_read(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    places = (secret, "/etc/passwd", "/etc/shadow", "/proc/self/environ", f"/proc/{os.getpid()}/environ", "/dev/mem",
              f"/proc/{os.getpid()}/mem", Path(__file__), Path(module.__file__), "/root/.bashrc")  # fmt: skip
    folders = (tmp_path, "/home", "/tmp", "/proc", "/dev", "/usr/bin", "/var", Path(__file__).parent)
    opened = [f"open({str(place)!r}, 'rb').read(1)" for place in places]
    listed = [f"os.listdir({str(folder)!r})" for folder in folders]
    result = refused(
        sandbox,
        *opened,
        *listed,
        f"os.symlink({str(secret)!r}, 'link'); open('link').read()",
        f"os.link({str(secret)!r}, 'link'); open('link').read()",
        f"os.open({'../' * 20 + str(secret)[1:]!r}, os.O_RDONLY)",
        f"os.open({str(secret)!r}, os.O_PATH); raise OSError",
        "os.chroot('.')",
        setup="import os",
    )
    assert "the secret" not in result.output


@every_way
def test_files_outside_cannot_be_changed(sandbox: Sandbox, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("whole")
    mode, library = mine.stat().st_mode, os.__file__
    before = Path(library).stat()
    refused(
        sandbox,
        *(f"os.open({str(mine)!r}, {flags})" for flags in ("os.O_RDONLY | os.O_TRUNC", "os.O_RDWR", "os.O_WRONLY")),
        *(f"os.open({library!r}, {flags})" for flags in ("os.O_RDONLY | os.O_TRUNC", "os.O_RDWR", "os.O_APPEND | 1")),
        f"os.truncate({str(mine)!r}, 0)",
        f"os.remove({str(mine)!r})",
        f"os.rename({str(mine)!r}, {str(tmp_path / 'other')!r})",
        f"os.chmod({str(mine)!r}, 0o777)",
        f"os.chown({str(mine)!r}, 12345, 12345)",
        f"os.utime({str(mine)!r}, (0, 0))",
        f"os.setxattr({str(mine)!r}, 'user.a', b'b')",
        f"os.mkdir({str(tmp_path / 'folder')!r})",
        f"os.rmdir({str(tmp_path)!r})",
        f"os.mkfifo({str(tmp_path / 'pipe')!r})",
        f"open({str(tmp_path / 'new')!r}, 'w')",
        f"open({library + '.new'!r}, 'w')",
        f"os.chmod({library!r}, 0o777)",
        "os.memfd_create('a')",
        setup="import os",
    )
    assert mine.read_text() == "whole"
    assert mine.stat().st_mode == mode
    after = Path(library).stat()
    assert (before.st_size, before.st_mtime_ns, before.st_mode) == (after.st_size, after.st_mtime_ns, after.st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt"]


@every_way
def test_the_disk_cannot_be_filled(sandbox: Sandbox) -> None:
    program = (
        "written = 0\ntry:\n    for number in range(100):\n        with open(str(number), 'wb') as file:\n"
        "            written += file.write(bytes(1 << 20))\nexcept OSError:\n    print(written)"
    )
    result = sandbox.run_now(program)
    assert result.well, result.output
    assert int(result.output) <= sandbox.scratch
    many = "n = 0\ntry:\n    while True:\n        open(str(n), 'w').close(); n += 1\nexcept OSError:\n    print(n)"
    assert int(sandbox.run_now(many).output) <= 1024


# ---------------------------------------------------------------- network and kernel


@every_way
def test_there_is_no_network(sandbox: Sandbox) -> None:
    families = ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK")
    refused(
        sandbox,
        *(f"socket.socket(socket.{family}, socket.SOCK_DGRAM)" for family in families),
        "socket.socketpair()",
        "socket.create_connection(('127.0.0.1', 80), 1)",
        "urllib.request.urlopen('http://127.0.0.1:1', timeout=1)",
        "os.pipe()",
        "select.epoll()",
        setup="import os, select, socket, urllib.request",
    )


# Numbers on x86-64 of what a program has no business with.
CALLS = {
    "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "setsid": 112, "ptrace": 101, "mount": 165,
    "umount2": 166, "pivot_root": 155, "chroot": 161, "setuid": 105, "capset": 126, "socket": 41, "socketpair": 53,
    "shmget": 29, "msgget": 68, "semget": 64, "mknod": 133, "chmod": 90, "chown": 92, "truncate": 76, "link": 86,
    "symlink": 88, "prctl": 157, "arch_prctl": 158, "reboot": 169, "sethostname": 170, "init_module": 175,
    "keyctl": 250, "io_setup": 206, "timer_create": 222, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
    "tkill": 200, "unshare": 272, "setns": 308, "splice": 275, "perf_event_open": 298, "open_by_handle_at": 304,
    "process_vm_readv": 310, "process_vm_writev": 311, "seccomp": 317, "memfd_create": 319, "bpf": 321, "execveat": 322,
    "userfaultfd": 323, "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "pidfd_open": 434,
    "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "mount_setattr": 442, "landlock_create_ruleset": 444,
    "memfd_secret": 447, "mlock": 149, "personality": 135, "setrlimit": 160, "open": 2, "creat": 85, "eventfd2": 290,
}  # fmt: skip


@every_way
@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64")
def test_system_calls_by_number_are_refused(sandbox: Sandbox, sessions: list[int]) -> None:
    program = f"""
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
for name, number in {CALLS!r}.items():
    for number in (number, number | 0x40000000):
        ctypes.set_errno(0)
        if libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6) != -1 or ctypes.get_errno() != errno.EPERM:
            print(name, number, ctypes.get_errno())
print("all", libc.system(b"true") != 0, libc.fork())
"""
    assert sandbox.run_now(program) == ProgramResult("all True -1\n", 0)


@every_way
@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_the_calls_of_another_architecture_end_the_program(sandbox: Sandbox) -> None:
    program = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid of i386); int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
print("before", flush=True)
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
"""
    result = sandbox.run_now(program)
    assert result.output == "before\n"
    assert result.code > 128


@every_way
def test_memory_of_the_jail_can_be_written_without_getting_out(sandbox: Sandbox, tmp_path: Path) -> None:
    program = f"""
import ctypes, gc, sys
for module in list(sys.modules.values()):
    for name in ("install", "confine", "enclose", "drop_capabilities", "_limit"):
        if hasattr(module, name): setattr(module, name, print)
ctypes.pythonapi.Py_IncRef(None)
sys.modules["jail.child"].__dict__.clear()
open({str(tmp_path / "out")!r}, "w")
"""
    assert not sandbox.run_now(program).well
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- using up


@every_way
def test_memory_is_bounded(sandbox: Sandbox) -> None:
    refused(sandbox, "bytearray(1 << 32)", "mmap.mmap(-1, 1 << 32)", "[0] * (1 << 31)", setup="import mmap")
    grow = "held = []\ntry:\n    while True: held.append(bytearray(1 << 20))\n"
    grow += "except MemoryError:\n    n = len(held); held = 0; print(n)"
    assert int(sandbox.run_now(grow).output) < sandbox.memory >> 20
    raised = (
        "import resource\nfor name in ('AS', 'CPU', 'FSIZE', 'NPROC'):\n    n = getattr(resource, 'RLIMIT_' + name)\n"
    )
    raised += "    try: resource.setrlimit(n, (-1, -1))\n    except (ValueError, OSError): print('no')"
    assert sandbox.run_now(raised).output == "no\n" * 4


@every_way
def test_a_zip_bomb_on_standard_input_stays_small(sandbox: Sandbox) -> None:
    pack = (
        "import zipfile, io, base64\nraw = io.BytesIO()\nwith zipfile.ZipFile(raw, 'w', zipfile.ZIP_DEFLATED) as z:\n"
        "    with z.open('big', 'w') as f:\n        for _ in range(300): f.write(bytes(1 << 20))\n"
        "print(base64.b64encode(raw.getvalue()).decode())"
    )
    packed = Sandbox(cpu=20, seconds=60, output=1 << 20).run_now(pack)
    assert packed.well
    unpack = (
        "import zipfile, io, base64\nz = zipfile.ZipFile(io.BytesIO(base64.b64decode(input())))\n"
        "try:\n    z.read('big')\nexcept MemoryError: print('memory')\n"
        "try:\n    z.extract('big')\nexcept OSError: print('disk')"
    )
    patient = Sandbox(cpu=20, seconds=60, without=sandbox.without)
    assert patient.run_now(unpack, input=packed.output).output == "memory\ndisk\n"


@every_way
@pytest.mark.parametrize("sink", ["print('x' * 1000)", "os.write(2, b'x' * 5000)", "sys.stderr.write('x')"])
def test_a_flood_of_output_is_cut(sandbox: Sandbox, sink: str, sessions: list[int]) -> None:
    result = sandbox.run_now(f"import os, sys\nwhile True: {sink}")
    assert result.ending == "output"
    assert len(result.output) == sandbox.output


@patiently
@pytest.mark.parametrize(
    "program", ["while True: pass", "9 ** 9 ** 9", "import re; re.match('(a+)+b', 'a' * 40)", "list(iter(int, 1))"]
)
def test_endless_computations_are_ended(sandbox: Sandbox, program: str, sessions: list[int]) -> None:
    brief = Sandbox(cpu=1, seconds=20, without=sandbox.without)
    result = brief.run_now(program)
    assert result.ending == "cpu" or "MemoryError" in result.output
    assert not result.well


@patiently
def test_waiting_is_ended(sandbox: Sandbox, sessions: list[int]) -> None:
    brief = Sandbox(seconds=1.5, without=sandbox.without)
    result = brief.run_now("import time\nprint('before', flush=True)\ntime.sleep(60)")
    assert result == ProgramResult("before\n", 137, "seconds")
    assert brief.run_now("import time\nwhile True: print('x', flush=True); time.sleep(0.01)").ending == "seconds"


# ---------------------------------------------------------------- many at once


def test_calls_do_not_block_and_only_so_many_run_at_once() -> None:
    sandbox, most, live = Sandbox(workers=2), 0, 0
    plain, lock = module._Job.run, threading.Lock()

    def counted(job: module._Job) -> ProgramResult:
        nonlocal most, live
        with lock:
            live += 1
            most = max(most, live)
        try:
            return plain(job)
        finally:
            with lock:
                live -= 1

    async def play() -> tuple[list[ProgramResult], int]:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.005)
                beats += 1

        heart = asyncio.create_task(beat())
        found = await asyncio.gather(*(sandbox.run(f"print({n})") for n in range(12)))
        heart.cancel()
        return found, beats

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Job, "run", counted)
        found, beats = asyncio.run(play())
    assert [result.output for result in found] == [f"{n}\n" for n in range(12)]
    assert most == 2
    assert beats > 10


def test_a_cancelled_call_ends_its_program(sessions: list[int]) -> None:
    async def play() -> float:
        calls = [asyncio.create_task(Sandbox(workers=2).run("import time; time.sleep(30)")) for _ in range(4)]
        await asyncio.sleep(1.0)
        started = time.monotonic()
        for call in calls:
            call.cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in done)
        return started

    started = asyncio.run(play())
    while left_of(sessions):
        assert time.monotonic() - started < 10
        time.sleep(0.05)


def test_a_killed_trainer_takes_its_programs_along(tmp_path: Path) -> None:
    program = "import time\ntime.sleep(60)"
    trainer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"from hocket.agents.tools.sandbox import Sandbox\nSandbox(seconds=60).run_now({program!r})",
        ],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # it cannot clean up after itself
    )
    deadline = time.monotonic() + 30
    while len(children := descendants(trainer.pid)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    trainer.kill()
    trainer.wait()
    while any(Path(f"/proc/{child}").exists() and not is_zombie(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def descendants(process: int) -> list[int]:
    found = []
    for child in (int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()):
        found += [child, *descendants(child)]
    return found


def is_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# ---------------------------------------------------------------- what is missing


def test_a_machine_without_a_required_layer_is_refused() -> None:
    for without, named in (
        (("seccomp",), "seccomp"),
        (("namespaces", "landlock"), "landlock"),
        (("limits",), "limits"),
    ):
        with pytest.raises(ConfigurationError, match=named):
            Sandbox(without=without).run_now("print(1)")
        assert Sandbox(without=without, unsafe=True).run_now("print(1)").output == "1\n"
    with pytest.raises(ConfigurationError, match="did you mean 'seccomp'"):
        Sandbox(without=("secomp",))
    with pytest.raises(ConfigurationError, match="seconds must be above 0"):
        Sandbox(seconds=0)


def test_what_cannot_be_tried_is_missing_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(layers: tuple[str, ...]) -> str | None:
        return "no such call" if "seccomp" in layers else None

    monkeypatch.setattr(module, "_refusal", refusing)
    found, reasons = module._available.__wrapped__(0)
    assert found == tuple(name for name in LAYERS if name != "seccomp")
    assert reasons == {"seccomp": "no such call"}
    monkeypatch.setattr(module, "available", lambda: (found, reasons))
    with pytest.raises(ConfigurationError, match="seccomp: no such call"):
        Sandbox().layers()
