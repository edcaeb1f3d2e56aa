"""A LightQ cluster of real processes, as tests and chaos/run see it: waiting, free ports, the lightq command, what a topic
says of itself, and the comparison of receipts with what is stored. Clients is whatever has servers; Cluster is started and
broken through deploy/cluster.sh. Every wait has a condition and a deadline; a process is ended by the pid that was recorded
when it was started."""

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
BIN = pathlib.Path(os.environ.get("LIGHTQ_BIN", ROOT / "build" / "release" / "bin")).resolve()
SLOW = float(os.environ.get("LIGHTQ_TEST_SLOWNESS", "1"))  # sanitizer builds need more patience
TRY_MS = int(60000 * SLOW)  # a lightq command that is not told otherwise
LOOK_MS = int(15000 * SLOW)  # one that is repeated
LAG_MAX = 1000  # entries behind the last one that a replica may be and count as up to date


class Broken(AssertionError):
    """The cluster did not do what it promises."""


def wait_for(condition, what, seconds=30.0):
    """Calls condition() until it gives something true, which is returned; fails after the deadline. What: a text, or a
    function that gives it."""
    deadline = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Broken(f"not within {seconds * SLOW:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.02)


PORT_SPAN = 320
claims = {}  # base port: a name in the machine's abstract namespace, which goes with this process


def free_port_base(nodes=5):
    """A first client port so that 300 ports from it on are free now, and ours among the tests that run at the same time."""
    bases = range(20000, 30000 - PORT_SPAN, PORT_SPAN)
    first = os.getpid() % len(bases)
    for base in [*bases[first:], *bases[:first]]:
        claim = claims.get(base) or socket.socket(socket.AF_UNIX)
        try:
            if base not in claims:
                claim.bind(f"\0lightq-test-ports-{base}")
                claims[base] = claim
            for port in [base + 10 * i + row for i in range(nodes) for row in (0, 100, 200)]:
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a node has it: what waits is free
                    probe.bind(("127.0.0.1", port))
            return base
        except OSError:
            if base not in claims:
                claim.close()
    raise Broken("no free ports")


def has_ended(pid):
    """Whether the process is gone, or a zombie; it may vanish while it is looked at."""
    try:
        return "State:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return True


def patient(words):
    """The words of a lightq command, which by itself would give up early for a slow build on a busy machine."""
    verbs = {"produce", "list", "describe", "status"}
    return words if "--timeout" in words or not verbs.intersection(words) else (*words, "--timeout", TRY_MS)


def count_lines(path):
    if not path.exists():
        return 0
    with open(path, "rb") as lines:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: lines.read(1 << 20), b""))


class Clients:
    """The lightq command on servers, with a folder for what it writes."""

    def __init__(self, folder, servers="", before=(), environment=None):
        self.folder = pathlib.Path(folder)
        self.before = list(before)  # words in front of every command: where clients live
        self.environment = dict(environment or os.environ, LIGHTQ_SERVERS=servers)
        self.children = []

    def log_tails(self, lines=15):
        """The last lines of what the nodes said, for a complaint."""
        del lines
        return ""

    def command(self, *words):
        return [*map(str, self.before), str(BIN / "lightq"), *map(str, patient(words))]

    def lightq(self, *words, check=True, data=None, seconds=120):
        done = subprocess.run(self.command(*words), env=self.environment, input=data, capture_output=True, text=True,
                              check=False, timeout=seconds * SLOW)
        if check and done.returncode != 0:
            raise Broken(f"lightq {' '.join(map(str, words))} gave {done.returncode}: {done.stderr}{self.log_tails()}")
        return done

    def json_lines(self, *words):
        done = self.lightq("--format", "json", *words)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start_lightq(self, *words):
        output = open(self.folder / f"out{len(self.children)}", "w+", encoding="utf-8")
        child = subprocess.Popen(self.command(*words), env=self.environment, stdout=output, stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, text=True, start_new_session=True)
        child.output = output
        self.children.append(child)
        return child

    def said(self, child):
        child.output.seek(0)
        return child.output.read()

    def finish(self, child, seconds=120):
        code = child.wait(timeout=seconds * SLOW)
        if code != 0:
            raise Broken(f"{' '.join(child.args)} gave {code}: {self.said(child)}{self.log_tails()}")
        return self.said(child)

    def end_clients(self):
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                child.wait()
            child.output.close()

    # ---- what a topic says of itself

    def describe(self, topic):
        return json.loads(self.lightq("--format", "json", "topic", "describe", topic).stdout)

    def try_describe(self, topic):
        """None when nobody can say it now."""
        try:
            done = self.lightq("--format", "json", "topic", "describe", topic, "--timeout", LOOK_MS, check=False, seconds=60)
            return json.loads(done.stdout) if done.returncode == 0 else None
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            return None

    def leader(self, topic, partition=0, seconds=30):
        def known():
            seen = self.try_describe(topic)
            return seen and seen["partitions"][partition]["leader"]

        return wait_for(known, f"a leader of {topic}/{partition}", seconds)

    def when_described(self, topic, condition, what, seconds=60):
        """Waits until condition(the description of topic) gives something true, which is returned."""
        seen = [None]

        def holds():
            seen[0] = self.try_describe(topic)
            return seen[0] and condition(seen[0])

        return wait_for(holds, lambda: f"{what}: {seen[0]}", seconds)

    def not_whole(self, topic):
        """What is not so: every partition has all its replicas, online, well, voting and not far behind."""
        seen = self.try_describe(topic)
        if seen is None:
            return "no description"
        for partition in seen["partitions"]:
            where = f"partition {partition['partition']}"
            if not partition["leader"]:
                return f"{where} has no leader"
            if len(partition["replicas"]) != seen["replicas"]:
                return f"{where} has {len(partition['replicas'])} replicas"
            last = max(r["last_index"] for r in partition["replicas"])
            for r in partition["replicas"]:
                if not r["online"] or r["health"] != "ok" or r["role"] not in ("leader", "follower"):
                    return f"{where}: replica on node {r['node']} is {r['role']}, online {r['online']}, {r['health']}"
                if r["last_index"] + LAG_MAX < last:
                    return f"{where}: node {r['node']} is at {r['last_index']} of {last}"
        return None

    def wait_whole(self, topic, seconds=60):
        last = ["nothing is known"]

        def whole():
            last[0] = self.not_whole(topic)
            return last[0] is None

        wait_for(whole, lambda: f"replicas of {topic} whole: {last[0]}", seconds)

    def wait_equal(self, topic, seconds=60):
        """Until all replicas of every partition show one digest at one end; gives what the topic says then."""
        patience_ms = int(seconds * SLOW * 1000)
        done = self.lightq("--format", "json", "topic", "describe", topic, "--wait-equal", "--timeout", patience_ms,
                           check=False, seconds=seconds + 60)
        if done.returncode != 0:
            raise Broken(f"{done.stderr.strip()}: {done.stdout.strip()}{self.log_tails()}")
        return json.loads(done.stdout)

    # ---- receipts

    def acked_lines(self, name):
        return count_lines(self.folder / name)

    def wait_acked(self, name, count, child, seconds=60):
        wait_for(lambda: self.acked_lines(name) >= count or child.poll() is not None, f"{count} acknowledgements", seconds)

    def check(self, acked, log):
        """Compares receipts with logs of consumers; gives the last line of the verdict."""
        return self.check_history("--acked", *[self.folder / name for name in acked],
                                  "--log", *[self.folder / name for name in log])

    def check_history(self, *words):
        done = subprocess.run([BIN / "lightq-check", *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Broken(done.stdout + done.stderr + self.log_tails())
        return done.stdout.strip().splitlines()[-1]


class Cluster(Clients):
    """Nodes on this machine's loopback, by deploy/cluster.sh."""

    def __init__(self, nodes=3, args=""):
        super().__init__(tempfile.mkdtemp(prefix="lightq-it-"))
        self.nodes = nodes
        args += f" --set drain.timeout.ms={int(10 * SLOW)}s"
        self.environment.update(
            LIGHTQ_CLUSTER_DIR=str(self.folder / "cluster"),
            LIGHTQ_CLUSTER_PORT=str(free_port_base()),
            LIGHTQ_CLUSTER_ARGS=args,
            LIGHTQ_CLUSTER_READY_SECONDS=str(int(60 * SLOW)),
            LIGHTQ_CLUSTER_END_SECONDS=str(int(30 * SLOW)),
            LIGHTQ_BIN=str(BIN),
        )

    def script(self, *words, check=True):
        done = subprocess.run([ROOT / "deploy" / "cluster.sh", *map(str, words)], env=self.environment,
                              capture_output=True, text=True, check=False, timeout=180 * SLOW)
        if check and done.returncode != 0:
            raise Broken(f"cluster.sh {words}: {done.stdout}{done.stderr}{self.log_tails()}")
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
        self.end_clients()
        self.script("down", check=False)
        if failed:
            print(f"kept for inspection: {self.folder}{self.log_tails()}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
