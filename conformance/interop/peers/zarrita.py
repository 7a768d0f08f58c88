"""Reads with zarrita.js, in one process of node (zarrita.mjs) for all datasets, because node takes longer to start than to read."""
import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
node = None


def start():
    """Start node. It finds the packages next to the virtual environment, and ends when its stdin is closed."""
    global node
    with open(os.path.join(here, "zarrita.mjs"), encoding="utf-8") as f:
        program = f.read()
    node = subprocess.Popen(["node", "--input-type=module", "-e", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            cwd=os.path.join(os.path.dirname(sys.prefix), "node"))


def stop():
    """Stop node, for example because a response may be left in its pipe."""
    global node
    if node is not None:
        node.kill()
        node.wait()
        node.stdin.close()
        node.stdout.close()
        node = None


def describe(path):
    """The canonical description of a directory as JSON text."""
    if node is None:
        start()
    node.stdin.write(path + "\n")
    node.stdin.flush()
    status, _, text = node.stdout.readline().partition(" ")
    if status != "ok":
        raise RuntimeError(text or "node ended")
    return text
