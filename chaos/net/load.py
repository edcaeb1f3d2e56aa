"""Producers and a consumer that run while faults come and go, through the client library (the lightq command). Each writes
what it did and saw into the folder `history`, in the format of lightq-check, and receipts into `acked*`."""

import signal
import threading
import time

from lightq_cluster import BIN, SLOW, Broken, count_lines, wait_for

SIZE = 100
FOREVER = 1 << 62
DELIVERY_MS = 60000  # then a message is given up: its outcome is unknown
LOOK_SECONDS = 0.05
STALL_WEIGHT = 4  # when one sync takes long, an election, which needs several, takes longer


class Tail:
    """Follows a receipt file on a thread: how many lines there are, and when each partition last had one."""

    def __init__(self, path):
        self.path = path
        self.count = 0
        self.last = {}  # partition: when
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        while not self.path.exists():
            if self.ended.wait(LOOK_SECONDS):
                return
        with open(self.path, encoding="ascii") as lines:
            rest = ""
            while True:
                last_round = self.ended.is_set()
                chunk = lines.read(1 << 20)
                if chunk:
                    now = time.monotonic()
                    whole, _, rest = (rest + chunk).rpartition("\n")
                    for line in whole.splitlines():
                        self.count += 1
                        self.last[int(line.split(" ", 3)[2])] = now
                elif last_round:
                    return
                else:
                    self.ended.wait(LOOK_SECONDS)

    def close(self):
        self.ended.set()
        self.thread.join()


class Load:
    """One producer for each partition, which makes the time without it known, and one that lets the library choose."""

    def __init__(self, clients, recorder, topic, partitions, rate):
        self.clients, self.recorder, self.topic, self.partitions = clients, recorder, topic, partitions
        self.history = clients.folder / "history"
        self.history.mkdir(exist_ok=True)
        self.live = self.history / "live"
        self.consumer = clients.start_lightq("consume", topic, "--from", "start", "--history", self.live)
        self.acked, self.producers = [], []
        share = max(1, rate // (partitions + 1))
        for partition in [*range(partitions), None]:
            number = len(self.acked)
            self.acked.append(clients.folder / f"acked{number}")
            aimed = [] if partition is None else ["--partition", partition]
            self.producers.append(clients.start_lightq(
                "produce", topic, "--count", FOREVER, "--size", SIZE, "--rate", share, "--timeout", DELIVERY_MS, *aimed,
                "--acked", self.acked[-1], "--history", self.history / f"producer{number}"))
        self.tails = [Tail(path) for path in self.acked]
        self.stopped = False

    def acknowledged(self):
        return sum(tail.count for tail in self.tails)

    def look(self):
        """Clients that end by themselves are a failure."""
        for child in [*self.producers, self.consumer]:
            if not self.stopped and child.poll() is not None:
                raise Broken(f"{' '.join(child.args[-12:])} ended with {child.returncode}: {self.clients.said(child)}")

    def wait_flow(self, seconds=60):
        """Until each partition has another acknowledgement."""
        began = time.monotonic()
        while True:
            self.look()
            silent = [p for p in range(self.partitions) if max(t.last.get(p, 0) for t in self.tails) <= began]
            stalled = self.recorder.stalled_seconds(int(began * 1e6))
            if not silent:
                return
            if time.monotonic() > began + seconds * SLOW + STALL_WEIGHT * stalled:
                raise Broken(f"no acknowledgement from partitions {silent} within {seconds * SLOW:.0f} s after a fault (this machine "
                             f"stood still for {stalled:.1f} s meanwhile)")
            time.sleep(LOOK_SECONDS)

    def stop_producers(self, seconds=90, look=True):
        """They send no more, and wait a little for what is on its way; what has no answer then is unknown."""
        if look:
            self.look()
        if self.stopped:
            return
        self.stopped = True
        for producer in self.producers:
            producer.send_signal(signal.SIGTERM)
        for producer in self.producers:
            code = producer.wait(timeout=seconds * SLOW)
            if code not in (0, 1):
                raise Broken(f"produce ended with {code}: {self.clients.said(producer)}")
        for tail in self.tails:
            tail.close()

    def read_all(self, seconds=600):
        """Everything stored, from the start to the end, by a new consumer."""
        self.clients.lightq("consume", self.topic, "--from", "start", "--until-end", "--history", self.history / "final",
                            seconds=seconds)

    def end_consumer(self, seconds=60):
        """The consumer that ran all the time comes to the end, too: gives a list of complaints."""
        wanted = count_lines(self.history / "final")
        complaints = []
        try:
            wait_for(lambda: count_lines(self.live) >= wanted or self.consumer.poll() is not None,
                     "the running consumer reading on to the end", seconds)
        except Broken as error:
            complaints.append(f"{error}: {count_lines(self.live)} lines of {wanted}")
        if self.consumer.poll() is None:
            self.consumer.send_signal(signal.SIGTERM)
        elif self.consumer.returncode != 0:
            complaints.append(f"the running consumer ended with {self.consumer.returncode}: "
                              f"{self.clients.said(self.consumer)}")
        try:
            self.consumer.wait(timeout=20 * SLOW)
        except Exception as error:  # noqa: BLE001
            complaints.append(f"the running consumer does not end: {error}")
        return complaints

    def verify(self, seconds=600):
        """lightq verify on all receipts: gives a list of complaints."""
        receipts = self.clients.folder / "receipts"
        with open(receipts, "wb") as out:
            for path in self.acked:
                if path.exists():
                    out.write(path.read_bytes())
        done = self.clients.lightq("verify", "--acked", receipts, check=False, seconds=seconds)
        return [] if done.returncode == 0 else [f"lightq verify: {done.stdout}{done.stderr}"]

    @staticmethod
    def program():
        return BIN / "lightq-check"
