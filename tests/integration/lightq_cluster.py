"""A cluster of real lightqd processes for integration tests: started and broken through deploy/cluster.sh, looked at
through the lightq command. Every wait has a condition and a deadline."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LIGHTQ_BIN", ROOT / "build" / "release" / "bin"))
CHECK = ROOT / "deploy" / "check_receipts.py"
SLOW = float(os.environ.get("LIGHTQ_TEST_SLOWNESS", "1"))  # sanitizer builds need more patience


def wait_for(condition, what, seconds=30.0):
    """Calls condition() until it gives something true, which is returned; fails after the deadline."""
    deadline = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds * SLOW:.0f} s: {what}")
        time.sleep(0.02)


def free_port_base():
    """A first client port so that 300 ports from it on are free now; different for tests that run at the same time."""
    start = 20000 + (os.getpid() * 320) % 10000
    for base in [*range(start, 30000, 320), *range(20000, start, 320)]:
        try:
            for port in [base + 10 * i + row for i in range(5) for row in (0, 100, 200)]:
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    raise AssertionError("no free ports")


class Cluster:
    def __init__(self, nodes=3, args=""):
        self.nodes = nodes
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lightq-it-"))
        self.environment = dict(
            os.environ,
            LIGHTQ_CLUSTER_DIR=str(self.folder / "cluster"),
            LIGHTQ_CLUSTER_PORT=str(free_port_base()),
            LIGHTQ_CLUSTER_ARGS=args,
            LIGHTQ_CLUSTER_READY_SECONDS=str(int(60 * SLOW)),
            LIGHTQ_BIN=str(BIN),
        )
        self.children = []

    def script(self, *words, check=True):
        done = subprocess.run([ROOT / "deploy" / "cluster.sh", *map(str, words)], env=self.environment,
                              capture_output=True, text=True, check=False, timeout=180 * SLOW)
        if check and done.returncode != 0:
            raise AssertionError(f"cluster.sh {words}: {done.stdout}{done.stderr}{self.log_tails()}")
        return done

    def up(self):
        self.script("up", self.nodes)
        self.environment["LIGHTQ_SERVERS"] = self.script("servers").stdout.strip()
        return self

    def log_tails(self, lines=15):
        text = ""
        for log in sorted(self.folder.glob("cluster/n*/log")):
            tail = log.read_text(errors="replace").splitlines()[-lines:]
            text += f"\n--- {log}\n" + "\n".join(tail)
        return text

    def close(self, failed=False):
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                child.wait()
        self.script("down", check=False)
        if failed:
            print(f"kept for inspection: {self.folder}{self.log_tails()}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def lightq(self, *words, check=True, data=None, seconds=120):
        done = subprocess.run([BIN / "lightq", *map(str, words)], env=self.environment, input=data,
                              capture_output=True, text=True, check=False, timeout=seconds * SLOW)
        if check and done.returncode != 0:
            raise AssertionError(f"lightq {words} gave {done.returncode}: {done.stderr}{self.log_tails()}")
        return done

    def start_lightq(self, *words):
        output = open(self.folder / f"out{len(self.children)}", "w+", encoding="utf-8")
        child = subprocess.Popen([BIN / "lightq", *map(str, words)], env=self.environment, stdout=output,
                                 stderr=subprocess.STDOUT, text=True)
        child.output = output
        self.children.append(child)
        return child

    def finish(self, child, seconds=120):
        code = child.wait(timeout=seconds * SLOW)
        child.output.seek(0)
        text = child.output.read()
        if code != 0:
            raise AssertionError(f"{child.args} gave {code}: {text}{self.log_tails()}")
        return text

    def describe(self, topic):
        return json.loads(self.lightq("--format", "json", "topic", "describe", topic).stdout)

    def leader(self, topic, partition=0):
        def known():
            done = self.lightq("--format", "json", "topic", "describe", topic, check=False)
            if done.returncode != 0:
                return None
            return json.loads(done.stdout)["partitions"][partition]["leader"]

        return wait_for(known, f"a leader of {topic}/{partition}")

    def wait_equal(self, topic, replicas=3, seconds=60):
        """Waits until all replicas of every partition show one digest at one end."""
        def equal():
            done = self.lightq("--format", "json", "topic", "describe", topic, check=False)
            if done.returncode != 0:
                return False
            for partition in json.loads(done.stdout)["partitions"]:
                seen = {(r.get("digest"), r.get("digest_to")) for r in partition["replicas"]}
                if len(partition["replicas"]) != replicas or len(seen) != 1 or None in next(iter(seen)):
                    return False
            return True

        wait_for(equal, f"the replicas of {topic} being equal", seconds)

    def acked_lines(self, name):
        path = self.folder / name
        if not path.exists():
            return 0
        with open(path, "rb") as lines:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: lines.read(1 << 20), b""))

    def wait_acked(self, name, count, child, seconds=60):
        wait_for(lambda: self.acked_lines(name) >= count or child.poll() is not None,
                 f"{count} acknowledgements", seconds)

    def check(self, acked, log):
        done = subprocess.run([CHECK, "--acked", *[self.folder / name for name in acked],
                               "--log", *[self.folder / name for name in log]],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr + self.log_tails())
        return done.stdout
