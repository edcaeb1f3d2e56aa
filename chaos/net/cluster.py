"""A cluster of real lightqd processes in a Place. A process is ended by the pid that was recorded when it was started."""

import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "integration"))

from lightq_cluster import BIN, Broken, Clients, wait_for  # noqa: E402,F401
from place import PORT_CLIENT, PORT_HTTP, PORT_PEER, Place  # noqa: E402

READY_SECONDS = 60
CLOCK = BIN / "lightq-clock.so"


class Cluster(Clients):
    def __init__(self, nodes=3, settings=(), disk_mb=256, clocks=False):
        self.count = nodes
        self.nodes = range(1, nodes + 1)
        self.settings = settings
        self.clocks = clocks and CLOCK.exists()
        self.place = Place(nodes, disk_mb)
        super().__init__(self.place.folder, ",".join(self.place.endpoint(node, PORT_CLIENT) for node in self.nodes),
                         self.place.inside(0))
        self.running = {}  # node: Popen
        self.bad_ends = []
        self.ready_at = {}  # node: bytes of its log before this start
        for node in self.nodes:
            self.log(node).touch()
            self.set_clock(node)

    # ---- nodes

    def log(self, node):
        return self.place.node_folder(node) / "log"

    def clock_file(self, node):
        return self.place.node_folder(node) / "clock"

    def set_clock(self, node, offset_s=0.0, skew_ppm=0):
        """The node's wall clock, against the machine's. See clock.c."""
        with open(self.clock_file(node), "r+b" if self.clock_file(node).exists() else "w+b") as file:
            file.write(struct.pack("=qqq", int(offset_s * 1e9), skew_ppm, time.monotonic_ns()))

    def launch(self, node):
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
        environment = dict(os.environ)
        if self.clocks:
            environment.update(LD_PRELOAD=str(CLOCK), LIGHTQ_CLOCK_FILE=str(self.clock_file(node)))
        with open(self.log(node), "ab") as log:
            self.running[node] = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=log,
                                                  stderr=log, start_new_session=True, env=environment)

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

        wait_for(ready, lambda: f"node {node} being ready: {self.log_of_this_start(node)[-600:]}", seconds)

    def up(self):
        for node in self.nodes:
            self.launch(node)
        for node in self.nodes:
            self.wait_ready(node)

    def start(self, node):
        self.launch(node)
        self.wait_ready(node)

    def forget(self, node, expected):
        """Reaps node, which returns when its last thread is gone; an end that nobody asked for is remembered."""
        process = self.running.pop(node, None)
        if process is None:
            return
        code = process.wait(timeout=60)
        if code not in expected:
            self.bad_ends.append(f"node {node} ended with {code}")

    def kill(self, *nodes):
        """At one moment, as far as that goes."""
        for node in nodes:
            process = self.running.get(node)
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGKILL)
        for node in nodes:
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
                tail = self.log(node).read_text(errors="replace")[-500:]
                self.bad_ends.append(f"node {node} ended by itself with {code}: {tail}")

    # ---- end

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
