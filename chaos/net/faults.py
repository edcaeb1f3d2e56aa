"""What can be done to one node. Each function leaves the node running and healthy again or says in its name what it
leaves. `c` is a Cluster, `dice` a random.Random.
A fault that this machine or user cannot make raises Skipped."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

from cluster import Broken, wait_for
from place import run

DELAY = pathlib.Path(__file__).resolve().parent / "delay.py"
STILL_SECONDS = 10
SMALL_HEAD = 200  # bytes behind the header of a segment or journal file: in its first records
CGROUPS = pathlib.Path("/sys/fs/cgroup")


class Skipped(Exception):
    """This machine, or this user, cannot make the fault."""


def need_root(c):
    if not c.place.root:
        raise Skipped("needs root")


def need_namespaces(c):
    if not c.place.namespaces:
        raise Skipped("needs root and network namespaces")


def need_program(name):
    if not shutil.which(name):
        raise Skipped(f"needs {name}")


# ---- network


class BadLine:
    """What comes to the node is late, out of order, or lost, until close()."""

    QUEUE = 5

    def __init__(self, c, node, delay_ms, jitter_ms, loss):
        need_namespaces(c)
        self.c, self.node, self.holder = c, node, None
        rule = [*c.place.inside(node), "iptables", "-A", "INPUT", "-i", "eth0"]
        if delay_ms == 0 and jitter_ms == 0:
            run(*rule, "-m", "statistic", "--mode", "random", "--probability", loss, "-j", "DROP")
            return
        words = [*c.place.inside(node), sys.executable, DELAY, self.QUEUE, delay_ms, jitter_ms, loss]
        self.holder = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            if self.holder.stdout.readline().strip() != "ready":
                raise Skipped(f"packets cannot be held here: {self.holder.stderr.read().strip()[-200:]}")
            run(*rule, "-j", "NFQUEUE", "--queue-num", self.QUEUE, "--queue-bypass")
        except BaseException:
            self.close()
            raise

    def close(self):
        self.c.place.heal(self.node)
        if self.holder is not None:
            self.holder.kill()
            self.holder.communicate()


def reset_connections(c, node):
    need_program("ss")
    for other in c.nodes:
        run(*c.place.inside(node), "ss", "-K", "dst", c.place.address(other), check=False)


# ---- power and disks


def is_still(pid):
    """Whether no thread of a process that was sent SIGSTOP can run a line of its own any more: stopped, or in a system
    call that it will not come back from."""
    try:
        threads = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return False  # one has just ended: look again
    return all(text.rpartition(")")[2].split()[0] in "TtDZX" for text in threads)


def power(c, nodes):
    """The machines lose power at one moment: what was not synced is gone. They are down then.

    The processes stand still before the disks do. A process that went on would be told lies: an fdatasync that is under way
    when ext4 is shut down may return success with its data gone (1 in 20, tried on Linux 6), as it never could on a machine
    without power."""
    need_root(c)
    for node in nodes:
        if node in c.running:
            c.signal(node, signal.SIGSTOP)
    for node in nodes:
        if node in c.running:
            wait_for(lambda pid=c.pid(node): is_still(pid), f"node {node} standing still", STILL_SECONDS)
    for node in nodes:
        c.place.cut_power(node)
    c.kill(*nodes)
    for node in nodes:
        c.place.unmount(node)
        c.place.mount(node)


def fill(c, node):
    need_root(c)
    at = os.statvfs(c.place.mount_point(node))
    with open(c.place.mount_point(node) / "filler", "ab", buffering=0) as filler:  # what does not fit is not kept
        most = (at.f_bavail * at.f_frsize >> 20) - 16  # MiB that are only allocated: a large disk is full as soon
        if most > 0:
            os.posix_fallocate(filler.fileno(), filler.tell(), most << 20)
        for piece in (1 << 20, 4096):
            chunk = b"\0" * piece
            try:
                while True:
                    filler.write(chunk)
            except OSError:
                pass


def empty(c, node):
    (c.place.mount_point(node) / "filler").unlink(missing_ok=True)


def fail_next_sync(c, node, failed, seconds=10.0):
    """The next fdatasync or fsync of the node fails with EIO, once in each thread that syncs; failed() is called then."""
    need_root(c)
    need_program("strace")
    trace = c.folder / f"strace{node}"
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", str(trace), "-p", str(c.pid(node)),
                               "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO:when=1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(lambda: tracer.poll() is not None or (trace.exists() and "INJECTED" in trace.read_text(errors="replace")),
                 "a failed sync", seconds)
        if tracer.poll() is not None and c.ended(node) is None:
            raise Skipped("strace cannot attach")
        failed()
    finally:
        tracer.kill()  # what it traces goes on
        tracer.wait(timeout=20)


class Grouped:
    """One node in a cgroup (version 1) of its own, until close()."""

    def __init__(self, c, node, controller, limits):
        need_root(c)
        self.top = CGROUPS / controller
        if not (self.top / "cgroup.procs").exists():
            raise Skipped(f"needs the {controller} cgroup of version 1")
        self.group = self.top / f"{c.place.tag}n{node}"
        self.group.mkdir(exist_ok=True)
        for name, value in limits.items():
            (self.group / name).write_text(value)
        (self.group / "cgroup.procs").write_text(str(c.pid(node)))

    def close(self):
        wait_for(self.removed, "the removal of a cgroup", 30)

    def removed(self):
        try:
            for pid in (self.group / "cgroup.procs").read_text().split():
                (self.top / "cgroup.procs").write_text(pid)
            self.group.rmdir()
            return True
        except OSError:
            return False


class SlowDisk(Grouped):
    """Few writes a second for one node's disk."""

    def __init__(self, c, node, writes_per_s):
        need_root(c)
        device = os.stat(c.place.disks[node]).st_rdev
        self.name = f"{os.major(device)}:{os.minor(device)}"
        super().__init__(c, node, "blkio", {"blkio.throttle.write_iops_device": f"{self.name} {writes_per_s}"})

    def close(self):
        (self.group / "blkio.throttle.write_iops_device").write_text(f"{self.name} 0")
        super().close()


class Starved(Grouped):
    """A few hundredths of a processor for one node."""

    def __init__(self, c, node, percent):
        super().__init__(c, node, "cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": str(percent * 1000)})


def freeze(c, node):
    need_root(c)
    run("fsfreeze", "-f", c.place.mount_point(node))


def thaw(c, node):
    run("fsfreeze", "-u", c.place.mount_point(node))


# ---- files of a node that is down


def topic_folders(c, node):
    folders = [f for f in c.place.data(node).iterdir() if re.fullmatch(r"g\d+-\d+", f.name) and not f.name.startswith("g0-")]
    if not folders:
        raise Broken(f"node {node} has no folder of a partition")
    return sorted(folders)


def flip(path, at, dice):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        if not byte:
            raise Broken(f"{path} ends before byte {at}")
        file.seek(at)
        file.write(bytes([byte[0] ^ (1 << dice.randrange(8))]))
    return f"{path.parent.name}/{path.name} byte {at}"


def used_bytes(path):
    """Length without the zeros allocated ahead."""
    return len(path.read_bytes().rstrip(b"\0"))


def segments(c, node, dice):
    """The segments of one partition of this node that has the most."""
    folders = topic_folders(c, node)
    dice.shuffle(folders)
    return max((sorted(f.glob("*.log")) for f in folders), key=len)


def flip_bit(c, node, dice):
    """One bit in an entry that had been synced long ago."""
    segment = dice.choice(segments(c, node, dice)[:-1] or segments(c, node, dice))
    return flip(segment, dice.randrange(64, max(65, used_bytes(segment) // 2)), dice)


def truncate(c, node, dice):
    files = segments(c, node, dice)
    segment = dice.choice(files[:-1] or files)
    os.truncate(segment, used_bytes(segment) // 2)
    return f"{segment.parent.name}/{segment.name}"


def tear_tail(c, node, dice):
    """The last bytes of every partition's newest segment are not there."""
    said = []
    for folder in topic_folders(c, node):
        segment = sorted(folder.glob("*.log"))[-1]
        os.truncate(segment, max(64, used_bytes(segment) - dice.randrange(1, 200)))
        said.append(f"{folder.name}/{segment.name}")
    return " ".join(said)


def lose_segment(c, node, dice):
    files = segments(c, node, dice)
    segment = dice.choice(files[:-1] or files)
    segment.unlink()
    return f"{segment.parent.name}/{segment.name}"


def spoil_checkpoint(c, node, dice):
    """One bit in the newest checkpoint of every partition."""
    said = []
    for folder in topic_folders(c, node):
        files = sorted(folder.glob("*.ckpt"))
        if files:
            said.append(flip(files[-1], dice.randrange(16, files[-1].stat().st_size), dice))
    return ", ".join(said) or "no checkpoint yet"


def spoil_journal(c, node, dice):
    """One bit in the first records of the oldest journal file, which had been synced long ago."""
    path = sorted((c.place.data(node) / "journal").glob("*.journal"))[0]
    return flip(path, dice.randrange(64, 64 + SMALL_HEAD), dice)


# ---- limits


def limit_files(c, node, more):
    """Lets the node open only `more` files beyond those it has; gives the earlier limit back."""
    need_program("prlimit")
    pid = c.pid(node)
    before = run("prlimit", "--nofile", "--noheadings", "--output", "SOFT,HARD", "--pid", pid).stdout.split()
    used = len(os.listdir(f"/proc/{pid}/fd"))
    run("prlimit", f"--nofile={used + more}:{before[1]}", "--pid", pid)
    return f"{before[0]}:{before[1]}"


def restore_files(c, node, limit):
    run("prlimit", f"--nofile={limit}", "--pid", c.pid(node))
