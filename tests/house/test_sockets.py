"""Every place in the source that opens a socket is listed here, and its file on the page of what listens."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "sockets.md"

ANYWHERE = {
    *("bind", "listen", "serve_forever", "create_server", "create_unix_server", "start_server", "start_unix_server"),
    *("create_datagram_endpoint", "open_datagram_endpoint", "socketpair", "init_process_group", "init_rpc", "run_app"),
    *("socket", "fromfd", "make_server", "run_server", "LLM", "AsyncLLM", "LLMEngine", "add_insecure_port", "launch"),
}
"""What opens a socket, whatever it is called on."""

CLASSES = {
    *("Listener", "TCPStore", "HTTPServer", "ThreadingHTTPServer", "TCPServer", "ThreadingTCPServer", "UDPServer"),
    *("UnixStreamServer", "XMLRPCServer", "SimpleXMLRPCServer", "WSGIServer", "BaseManager", "SyncManager", "Manager"),
    *("Pipe", "Server", "TCPSite", "UnixSite", "Context", "ProcessGroupGloo", "ProcessGroupNCCL", "TCPSocket"),
}
"""Others' classes and functions that do, told from hocket's own by where they come from."""

RUNS = {"run", "serve", "init", "start"}
"""Functions of these modules that do."""

MODULES = {"uvicorn", "hypercorn", "ray", "waitress", "websockets", "grpc", "zmq", "tensorboard", "dashboard"}

FLAGS = ("--remote-debugging-port", "--bind", "tcp://", "0.0.0.0", "--api-key")
"""Texts that have another program listen, or name an address that all can reach."""

SPEAKS = re.compile(rf"\b_?(?:{'|'.join(ANYWHERE | CLASSES | MODULES)})\b|{'|'.join(map(re.escape, FLAGS))}")

KNOWN: dict[tuple[str, str], int] = {
    # serving
    ("hocket/apps/serve/host.py", "socket"): 1,
    ("hocket/apps/serve/host.py", "bind"): 1,
    ("hocket/apps/serve/host.py", "listen"): 1,
    ("hocket/apps/serve/host.py", "Server"): 1,
    # a swarm
    ("hocket/distributed/swarm/lines.py", "create_server"): 1,
    # learners
    ("hocket/distributed/cluster/ranks.py", "init_process_group"): 1,
    # programs
    ("hocket/distributed/cluster/nodes.py", "init"): 1,
    ("hocket/distributed/cluster/ray.py", "init"): 1,
    ("hocket/engine/vllm_child.py", "LLM"): 1,
    # without an address: pairs, and descriptors of what is open
    ("hocket/engine/vllm_child.py", "socket"): 1,
    ("hocket/engine/vllm_process.py", "socketpair"): 1,
    ("hocket/distributed/cluster/connection.py", "Pipe"): 1,
    ("hocket/distributed/cluster/connection.py", "socket"): 3,
    ("hocket/train/sampler.py", "Pipe"): 1,
}
"""How often each file does which."""

ELSEWHERE: dict[tuple[str, str], int] = {
    ("hocket/methods/systems/claims/lattica.py", "create_server"): 1,  # 127.0.0.1, for a free port.
    ("benchmarks/side_vllm.py", "LLM"): 1,
    ("hocket/apps/cli/details.py", "0.0.0.0"): 1,  # An example of what needs a key.
}
"""What is no part of a run."""


def opens(tree: ast.Module) -> Iterator[str]:
    """What a module calls, by name, that opens a socket."""
    origin = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            origin |= {one.asname or one.name: (node.module or "", one.name) for one in node.names}
        if isinstance(node, ast.Import):
            origin |= {one.asname or one.name: (one.name, "") for one in node.names}
    own = {node.name for node in ast.walk(tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (flag for flag in FLAGS if flag in node.value)
        bases = node.bases if isinstance(node, ast.ClassDef) else []
        called = [node.func] if isinstance(node, ast.Call) else bases
        for one in called:
            yield from _named(one, origin, own)


def _named(called: ast.expr, origin: dict[str, tuple[str, str]], own: set[str]) -> Iterator[str]:
    if isinstance(called, ast.Name):
        module, name = origin.get(called.id, ("", called.id))
        ours = module.startswith("hocket") or (not module and called.id in own)
    elif isinstance(called, ast.Attribute):
        name = called.attr
        root = called.value.id if isinstance(called.value, ast.Name) else ""
        module = origin.get(root, (root, ""))[0]
        ours = module.startswith("hocket")
    else:
        return
    runs = name in RUNS and bool({part.strip("_") for part in module.split(".")} & MODULES)
    if not ours and (name in ANYWHERE | CLASSES or runs):
        yield name


@cache
def found() -> dict[tuple[str, str], int]:
    """What the library, its examples and its benchmarks open."""
    files = [file for room in ("hocket", "examples", "benchmarks") for file in sorted((ROOT / room).rglob("*.py"))]
    every = Counter[tuple[str, str]]()
    for file in files:
        text = file.read_text()
        # A module without any of the names calls none of them; parsing all takes seconds.
        if SPEAKS.search(text):
            every.update((file.relative_to(ROOT).as_posix(), name) for name in opens(ast.parse(text)))
    return dict(every)


def test_what_opens_a_socket_is_listed() -> None:
    listed = KNOWN | ELSEWHERE
    new = {place: count for place, count in found().items() if listed.get(place, 0) < count}
    gone = {place: count for place, count in listed.items() if found().get(place, 0) < count}
    assert not new, f"list them here and, with address and guard, in {PAGE.name}: {new}"
    assert not gone, f"these open nothing any more: {gone}"


def test_the_page_names_every_file_that_opens_one() -> None:
    page = PAGE.read_text()
    assert not [file for file, _ in KNOWN if f"`{file}`" not in page]
    assert not [
        name for part in page.split("`")[1::2] if (name := part).endswith(".py") and not (ROOT / name).is_file()
    ]


OPENING = {
    "Listener": "from multiprocessing.connection import Listener as Ear\nEar(('', 0))",
    "TCPStore": "import torch.distributed as dist\ndist.TCPStore('h', 0)",
    "ThreadingHTTPServer": "from http.server import ThreadingHTTPServer\nThreadingHTTPServer(('', 0), None)",
    "TCPServer": "import socketserver\nclass Mine(socketserver.TCPServer): ...",
    "run": "import uvicorn\nuvicorn.run(app)",
    "start_server": "import asyncio\nasync def f(): await asyncio.start_server(g, 'h', 0)",
    "create_server": "async def f(loop): await loop.create_server(g, 'h', 0)",
    "bind": "def f(made): made.bind(('', 0))",
    "init": "import ray\nray.init()",
    "serve": "import websockets\nasync def f(): await websockets.serve(g, 'h', 0)",
    "Manager": "import multiprocessing as mp\nmp.Manager()",
    "--remote-debugging-port": "flags = ['--remote-debugging-port=9222']",
}


@pytest.mark.parametrize("name", OPENING)
def test_what_opens_a_socket_is_found(name: str) -> None:
    assert name in list(opens(ast.parse(OPENING[name])))


def test_what_is_hockets_own_and_opens_none_is_not() -> None:
    own = (
        "from hocket.agents.tools.mcp import Server\nServer('x')\n"
        "class Listener: ...\nListener()\nimport os\nos.popen('x')"
    )
    assert not list(opens(ast.parse(own)))
