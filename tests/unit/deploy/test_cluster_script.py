"""deploy/cluster.sh with a pretended lightqd: what it takes for running and for gone."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "cluster.sh"

# Holds its client port as a real node does. On SIGTERM its first thread ends at once and another one half a second
# later: in between the process shows as a zombie, and the port is still taken.
FAKE = f"""#!{sys.executable}
import ctypes, os, signal, socket, sys, threading, time
SYS_EXIT = {{"x86_64": 60, "aarch64": 93}}[os.uname().machine]
host, port = sys.argv[sys.argv.index("--listen") + 1].split(":")
held = socket.socket()
held.bind((host, int(port)))
held.listen()
ending = threading.Event()
def last():
    ending.wait()
    time.sleep(0.5)
    os._exit(0)
threading.Thread(target=last).start()
def on_term(*_):
    ending.set()
    ctypes.CDLL(None).syscall(SYS_EXIT, 0)
signal.signal(signal.SIGTERM, on_term)
print("ready pretended", flush=True)
while True:
    signal.pause()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return min(probe.getsockname()[1], 64000)


class ClusterScript(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lightq-script-"))
        program = self.folder / "lightqd"
        program.write_text(FAKE, encoding="ascii")
        program.chmod(0o755)
        self.environment = dict(os.environ, LIGHTQ_CLUSTER_DIR=str(self.folder / "cluster"),
                                LIGHTQ_CLUSTER_PORT=str(free_port()), LIGHTQ_BIN=str(self.folder),
                                LIGHTQ_CLUSTER_READY_SECONDS="20")
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(self.script, "down")

    def script(self, *words):
        return subprocess.run([SCRIPT, *map(str, words)], env=self.environment, capture_output=True, text=True,
                              check=False, timeout=60)

    def wait_zombie(self):
        pid = (self.folder / "cluster" / "n1" / "pid").read_text(encoding="ascii").strip()
        status = pathlib.Path("/proc") / pid / "status"
        deadline = time.monotonic() + 20
        try:
            while "State:\tZ" not in status.read_text(encoding="ascii"):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.005)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it is gone already

    def test_script_stop_returns_when_every_thread_is_gone(self):
        self.assertEqual(self.script("up", 1).returncode, 0)

        for _ in range(3):
            stopped = self.script("stop", 1)
            started = self.script("start", 1)

            self.assertEqual(stopped.returncode, 0, stopped.stderr)
            self.assertEqual(started.returncode, 0, started.stderr)

    def test_script_start_waits_for_a_node_that_is_still_ending(self):
        self.assertEqual(self.script("up", 1).returncode, 0)

        for words in (("start", 1), ("up",)):
            os.kill(int((self.folder / "cluster" / "n1" / "pid").read_text(encoding="ascii")), signal.SIGTERM)
            self.wait_zombie()
            started = self.script(*words)

            self.assertEqual(started.returncode, 0, started.stderr)

    def test_script_pid_of_somebody_else_is_not_believed(self):
        self.assertEqual(self.script("up", 1).returncode, 0)
        self.script("stop", 1)
        (self.folder / "cluster" / "n1" / "pid").write_text(f"{os.getpid()}\n", encoding="ascii")

        self.assertIn("node 1: down", self.script("status").stdout)
        self.assertIn("does not run", self.script("kill", 1).stderr)

    def test_script_wrong_words_are_usage_and_change_nothing(self):
        for words in ((), ("frob",), ("up", 1, 2), ("down", 1), ("servers", 1), ("status", "all"), ("kill", 1, 2)):
            refused = self.script(*words)
            self.assertEqual(refused.returncode, 2, words)
            self.assertIn("deploy/cluster.sh up [N=3]", refused.stderr)
        self.assertFalse((self.folder / "cluster").exists())


if __name__ == "__main__":
    unittest.main()
