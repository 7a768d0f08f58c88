"""Run the tools of this folder on request, without importing the peers again each time.

    python serve.py MODULE...

imports the modules once. Each line on stdin is a request in JSON, {"args": ["read.py", "--with", "zarr", PATH], "out": FILE, "err": FILE}.
It is run in a copy of this process (fork), with its output in the two files; the response is a line with its exit status,
which is negative if a signal ended it. A copy cannot have threads of this process, so this process must have no other threads.
"""
import functools
import gc
import importlib
import json
import os
import sys
import traceback

import zarrita

here = os.path.dirname(os.path.abspath(__file__))


@functools.cache
def compiled(name):
    with open(os.path.join(here, name), "rb") as f:
        return compile(f.read(), os.path.join(here, name), "exec")


def run(request, program):
    for descriptor, name in (1, request["out"]), (2, request["err"]):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    sys.argv = [os.path.join(here, request["args"][0]), *request["args"][1:]]
    try:
        exec(program, {"__name__": "__main__", "__file__": sys.argv[0]})
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main():
    sys.path[0] = here
    for module in sys.argv[1:]:
        importlib.import_module(module)
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
    if threads != 1:
        sys.exit(f"serve.py: importing {sys.argv[1:]} started {threads - 1} threads")
    gc.freeze()  # a collection in a copy would write to all pages
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        if "zarrita" in request["args"] and zarrita.node is None:
            try:
                zarrita.start()
            except OSError:
                pass  # the copy tries again, and reports the error
        program = compiled(request["args"][0])
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = run(request, program)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status != 0:
            zarrita.stop()
        print(status, flush=True)


main()
