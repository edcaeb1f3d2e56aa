"""Where a cluster lives: network namespaces of its own and a small ext4 file system for each node when run by root,
else loopback and plain folders. All that is made here is taken down by close(), in reverse order, whatever failed."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from lightq_cluster import free_port_base

EXT4_IOC_SHUTDOWN = 0x8004587D
SHUTDOWN_WITHOUT_LOG = 2  # what was not synced is gone, as after a power cut
PORT_CLIENT, PORT_PEER, PORT_HTTP = 5600, 5700, 5800


def run(*words, check=True, seconds=60):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, timeout=seconds)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(w) for w in words)}: {done.stdout}{done.stderr}")
    return done


class Place:
    """Folders, addresses and the words before a command for nodes 1..count and for the clients (node 0)."""

    def __init__(self, count, disk_mb=256):
        self.count = count
        self.root = os.geteuid() == 0
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lightq-chaos-"))
        self.undo = []
        self.tag = f"lqc{os.getpid()}"
        self.namespaces = False
        self.disks = {}
        try:
            if self.root:
                self.make_namespaces()
                for node in range(1, count + 1):
                    self.make_disk(node, disk_mb)
            for node in range(1, count + 1):
                self.node_folder(node).mkdir(parents=True, exist_ok=True)
                self.data(node).mkdir(parents=True, exist_ok=True)
            self.base = 0 if self.namespaces else free_port_base(count)
        except BaseException:
            self.close()
            raise

    # ---- network

    def make_namespaces(self):
        if not shutil.which("ip") or run("ip", "netns", "add", self.tag, check=False).returncode != 0:
            return
        self.undo.append(lambda: run("ip", "netns", "del", self.tag))
        hub = ["ip", "-n", self.tag]
        run(*hub, "link", "set", "lo", "up")
        run(*hub, "link", "add", "hub", "type", "bridge")
        run(*hub, "addr", "add", "10.87.0.254/24", "dev", "hub")
        run(*hub, "link", "set", "hub", "up")
        for node in range(1, self.count + 1):
            name = f"{self.tag}n{node}"
            run("ip", "netns", "add", name)
            self.undo.append(lambda name=name: run("ip", "netns", "del", name))
            run(*hub, "link", "add", f"v{node}", "type", "veth", "peer", "name", "eth0", "netns", name)
            run(*hub, "link", "set", f"v{node}", "master", "hub", "up")
            run("ip", "-n", name, "addr", "add", f"10.87.0.{node}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
        self.namespaces = True

    def inside(self, node):
        """The words before a command that runs on this node; 0 is where clients are."""
        if not self.namespaces:
            return []
        name = self.tag if node == 0 else f"{self.tag}n{node}"
        return ["nsenter", f"--net=/run/netns/{name}", "--"]

    def address(self, node):
        return f"10.87.0.{node}" if self.namespaces else "127.0.0.1"

    def port(self, node, kind):
        return kind if self.namespaces else self.base + 10 * (node - 1) + kind - PORT_CLIENT

    def endpoint(self, node, kind):
        return f"{self.address(node)}:{self.port(node, kind)}"

    def cut(self, node, other):
        """Node hears nothing from other any more; 0 is the clients."""
        run(*self.inside(node), "iptables", "-A", "INPUT", "-s", self.address(other or 254), "-j", "DROP")

    def heal(self, node):
        run(*self.inside(node), "iptables", "-F", "INPUT")

    # ---- disks

    def node_folder(self, node):
        return self.folder / f"n{node}"

    def mount_point(self, node):
        return self.folder / f"disk{node}"

    def data(self, node):
        return self.mount_point(node) / "data"

    def make_disk(self, node, disk_mb):
        image = self.folder / f"disk{node}.img"
        with open(image, "wb") as file:
            file.truncate(disk_mb << 20)
        device = run("losetup", "-f", "--show", image).stdout.strip()
        self.undo.append(lambda: run("losetup", "-d", device))
        run("mkfs.ext4", "-q", "-m", "0", device)
        self.mount_point(node).mkdir()
        run("mount", device, self.mount_point(node))
        self.disks[node] = device
        self.undo.append(lambda: self.unmount(node))

    def unmount(self, node):
        deadline = time.monotonic() + 20
        while os.path.ismount(self.mount_point(node)):
            run("fsfreeze", "-u", self.mount_point(node), check=False)
            done = run("umount", self.mount_point(node), check=False)
            if done.returncode != 0 and time.monotonic() > deadline:
                raise RuntimeError(f"umount {self.mount_point(node)}: {done.stderr}")
            time.sleep(0.02 if done.returncode == 0 else 0.2)

    def mount(self, node):
        run("mount", self.disks[node], self.mount_point(node))

    def cut_power(self, node):
        """All that was written and not synced is gone. Nothing works on this disk until it is mounted again."""
        handle = os.open(self.mount_point(node), os.O_RDONLY)
        try:
            fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, SHUTDOWN_WITHOUT_LOG.to_bytes(4, "little"))
        finally:
            os.close(handle)

    def free_bytes(self, node):
        at = os.statvfs(self.mount_point(node))
        return at.f_bavail * at.f_frsize

    # ---- end

    def keep_data(self, node):
        shutil.copytree(self.data(node), self.node_folder(node) / "data", dirs_exist_ok=True)

    def close(self, keep=False):
        problems = []
        steps = self.undo
        if keep:
            steps += [lambda node=node: self.keep_data(node) for node in self.disks]
        for step in reversed(steps):
            try:
                step()
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                problems.append(str(error))
        self.undo = []
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        if problems:
            raise RuntimeError("not taken down: " + "; ".join(problems))
