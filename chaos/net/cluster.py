"""A cluster of real lightqd processes in a Place, and the processes that load it. Every wait has a condition and a
deadline; a process is ended by the pid that was recorded when it was started."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from place import PORT_CLIENT, PORT_HTTP, PORT_PEER, Place

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LIGHTQ_BIN", ROOT / "build" / "release" / "bin")).resolve()
READY_SECONDS = 60


class Broken(Exception):
    """The cluster did not do what it promises."""


def wait_for(condition, what, seconds=30.0):
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Broken(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


class Cluster:
    def __init__(self, nodes=3, settings=()):
        self.count = nodes
        self.nodes = range(1, nodes + 1)
        self.replicas = 3 if nodes >= 3 else 1  # the default of a new topic
        self.settings = settings
        self.place = Place(nodes)
        self.folder = self.place.folder
        self.running = {}  # node: Popen
        self.children = []
        self.bad_ends = []
        self.ready_at = {}  # node: bytes of its log before this start
        self.environment = dict(os.environ, LIGHTQ_SERVERS=",".join(self.servers()))

    def servers(self):
        return [self.place.endpoint(node, PORT_CLIENT) for node in self.nodes]

    # ---- nodes

    def log(self, node):
        return self.place.node_folder(node) / "log"

    def launch(self, node):
        self.log(node).touch()
        self.ready_at[node] = self.log(node).stat().st_size
        words = [*self.place.inside(node), BIN / "lightqd", "--data", self.place.data(node), "--node-id", node,
                 "--seeds", ",".join(self.place.endpoint(n, PORT_PEER) for n in self.nodes), "--expect", self.count,
                 "--listen", self.place.endpoint(node, PORT_CLIENT),
                 "--peer-listen", self.place.endpoint(node, PORT_PEER),
                 "--http", self.place.endpoint(node, PORT_HTTP)]
        if self.place.namespaces:
            words += ["--set", "peer.insecure=true"]
        for setting in self.settings:
            words += ["--set", setting]
        with open(self.log(node), "ab") as log:
            self.running[node] = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=log,
                                                  stderr=log, start_new_session=True)

    def log_of_this_start(self, node):
        with open(self.log(node), "rb") as log:
            log.seek(self.ready_at[node])
            return log.read().decode(errors="replace")

    def ended(self, node):
        """The exit code of a node that ended by itself."""
        process = self.running.get(node)
        return None if process is None else process.poll()

    def wait_ready(self, node, seconds=READY_SECONDS):
        def ready():
            if self.ended(node) is not None:
                raise Broken(f"node {node} ended with {self.ended(node)} before it was ready: "
                             f"{self.log_of_this_start(node)[-600:]}")
            return any(line.startswith("ready ") for line in self.log_of_this_start(node).splitlines())

        wait_for(ready, f"node {node} being ready: {self.log_of_this_start(node)[-600:]}", seconds)

    def up(self):
        for node in self.nodes:
            self.launch(node)
        for node in self.nodes:
            self.wait_ready(node)

    def start(self, node):
        self.launch(node)
        self.wait_ready(node)

    def forget(self, node, expected):
        """Reaps node; an end that nobody asked for is remembered."""
        process = self.running.pop(node, None)
        if process is None:
            return
        code = process.wait(timeout=60)
        if code not in expected:
            self.bad_ends.append(f"node {node} ended with {code}")

    def kill(self, node):
        process = self.running.get(node)
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            self.forget(node, (-signal.SIGKILL,))

    def stop(self, node):
        process = self.running.get(node)
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.bad_ends.append(f"node {node} does not stop within 30 s")
                process.send_signal(signal.SIGKILL)
                self.forget(node, (-signal.SIGKILL,))
                return
        self.forget(node, (0,))

    def signal(self, node, number):
        self.running[node].send_signal(number)

    def pid(self, node):
        return self.running[node].pid

    def look_for_dead(self):
        for node in list(self.running):
            if self.ended(node) is not None:
                code = self.ended(node)
                self.running.pop(node)
                self.bad_ends.append(f"node {node} ended by itself with {code}: {self.log(node).read_text(errors='replace')[-500:]}")

    # ---- clients

    def lightq(self, *words, check=True, seconds=60):
        done = subprocess.run([*self.place.inside(0), str(BIN / "lightq"), *map(str, words)], env=self.environment,
                              capture_output=True, text=True, check=False, timeout=seconds)
        if check and done.returncode != 0:
            raise Broken(f"lightq {' '.join(map(str, words))} gave {done.returncode}: {done.stderr.strip()}")
        return done

    def start_lightq(self, *words):
        output = open(self.folder / f"client{len(self.children)}", "w+", encoding="utf-8")
        child = subprocess.Popen([*self.place.inside(0), str(BIN / "lightq"), *map(str, words)], env=self.environment,
                                 stdout=output, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        child.output = output
        self.children.append(child)
        return child

    def describe(self, topic):
        try:
            done = self.lightq("--format", "json", "topic", "describe", topic, check=False, seconds=20)
            return json.loads(done.stdout) if done.returncode == 0 else None
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            return None

    def leader(self, topic, partition=0, seconds=20):
        def known():
            seen = self.describe(topic)
            return seen and seen["partitions"][partition]["leader"]

        return wait_for(known, f"a leader of {topic}/{partition}", seconds)

    def whole(self, topic):
        """Every partition has all its replicas, online, well, voting and not far behind; or what is not so."""
        seen = self.describe(topic)
        if seen is None:
            return "no description"
        for partition in seen["partitions"]:
            where = f"partition {partition['partition']}"
            if not partition["leader"]:
                return f"{where} has no leader"
            if len(partition["replicas"]) != self.replicas:
                return f"{where} has {len(partition['replicas'])} replicas"
            last = max(r.get("last_index", 0) for r in partition["replicas"])
            for r in partition["replicas"]:
                if not r["online"] or r["health"] != "ok" or r["role"] not in ("leader", "follower"):
                    return f"{where}: replica on node {r['node']} is {r['role']}, online {r['online']}, {r['health']}"
                if r["last_index"] + 1000 < last:
                    return f"{where}: node {r['node']} is at {r['last_index']} of {last}"
        return None

    def wait_whole(self, topic, seconds=60):
        last = [None]

        def whole():
            last[0] = self.whole(topic)
            return last[0] is None

        try:
            wait_for(whole, "replicas whole", seconds)
        except Broken as error:
            raise Broken(f"{error}: {last[0]}") from error

    def wait_equal(self, topic, seconds=60):
        """Until all replicas of every partition show one digest at one end."""
        last = [None]

        def equal():
            seen = self.describe(topic)
            if seen is None:
                last[0] = "no description"
                return False
            for partition in seen["partitions"]:
                marks = {(r.get("digest"), r.get("digest_to")) for r in partition["replicas"]}
                if len(partition["replicas"]) != self.replicas or len(marks) != 1 or None in next(iter(marks)):
                    last[0] = json.dumps(partition)
                    return False
            return True

        try:
            wait_for(equal, "replicas equal", seconds)
        except Broken as error:
            raise Broken(f"{error}: {last[0]}") from error

    # ---- end

    def end_clients(self):
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                child.wait()
            child.output.close()

    def close(self, keep=False):
        try:
            self.end_clients()
            for node in self.nodes:
                if self.place.root:
                    subprocess.run(["fsfreeze", "-u", self.place.mount_point(node)], capture_output=True, check=False)
                process = self.running.pop(node, None)
                if process is not None:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
        finally:
            self.place.close(keep)

    def remove_data(self, node):
        shutil.rmtree(self.place.data(node))
        self.place.data(node).mkdir()
