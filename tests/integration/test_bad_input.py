"""What strangers, typing errors and wrong directories get: a named error or a closed connection, and nothing else."""

import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

from lightq_cluster import BIN, SLOW, Cluster, free_port_base, wait_for


def lightqd(*words, environment=None):
    """Runs a lightqd that is expected to end by itself."""
    return subprocess.run([BIN / "lightqd", *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=60 * SLOW, env=dict(os.environ, **(environment or {})))


class StartTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lightq-bad-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.base = free_port_base()
        self.data = self.folder / "data"
        self.ports = ["--listen", f"127.0.0.1:{self.base}", "--peer-listen", f"127.0.0.1:{self.base + 100}"]

    def start(self, *words):
        process = subprocess.Popen([BIN / "lightqd", *map(str, words)], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        self.assertTrue(line.startswith("ready "), line)
        return process

    def assert_refused(self, done, words, code=1):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(words, done.stderr)
        self.assertNotIn("ready ", done.stdout)

    def test_lightqd_unknown_flag_is_usage(self):
        self.assert_refused(lightqd("--no-such-flag"), "no-such-flag", code=2)

    def test_lightqd_unknown_option_is_named(self):
        done = lightqd("--data", self.data, "--set", "no.such.option=1")

        self.assertIn(done.returncode, (1, 2))
        self.assertIn("no.such.option", done.stderr)
        self.assertFalse(self.data.exists())

    def test_lightqd_bad_node_id_is_named(self):
        for value in ("0", "65536", "-1", "x", ""):
            done = lightqd("--data", self.data, "--node-id", value)

            self.assertIn(done.returncode, (1, 2), value)
            self.assertIn("node", done.stderr)
            self.assertFalse(self.data.exists())

    def test_lightqd_unreadable_configuration_is_named(self):
        self.assert_refused(lightqd("--config", self.folder / "none.conf", "--data", self.data), "none.conf")

    def test_lightqd_bad_configuration_line_is_named(self):
        path = self.folder / "lightq.conf"
        path.write_text("max.message.bytes = 99t\n", encoding="ascii")

        self.assert_refused(lightqd("--config", path, "--data", self.data), "max.message.bytes")

    def test_lightqd_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", self.base))
            taken.listen()

            self.assert_refused(lightqd("--data", self.data, *self.ports), str(self.base))

    def test_lightqd_directory_in_use_is_named(self):
        self.start("--data", self.data, *self.ports)

        done = lightqd("--data", self.data, "--listen", f"127.0.0.1:{self.base + 1}", "--peer-listen",
                       f"127.0.0.1:{self.base + 101}")

        self.assert_refused(done, str(self.data))

    def test_lightqd_directory_of_another_node_is_refused(self):
        process = self.start("--data", self.data, *self.ports)
        process.terminate()
        self.assertEqual(process.wait(timeout=20 * SLOW), 0)

        self.assert_refused(lightqd("--data", self.data, "--node-id", 2, *self.ports), "node")

    def test_lightqd_restart_keeps_its_messages(self):
        environment = dict(os.environ, LIGHTQ_SERVERS=f"127.0.0.1:{self.base}")
        process = self.start("--data", self.data, *self.ports)
        subprocess.run([BIN / "lightq", "topic", "create", "t"], env=environment, check=True, timeout=60 * SLOW)
        subprocess.run([BIN / "lightq", "produce", "t"], env=environment, check=True, timeout=60 * SLOW, text=True,
                       input="kept\n")
        process.terminate()
        self.assertEqual(process.wait(timeout=20 * SLOW), 0)

        self.start("--data", self.data, *self.ports)

        read = subprocess.run([BIN / "lightq", "consume", "t", "--until-end", "--print"], env=environment, check=True,
                              timeout=60 * SLOW, capture_output=True, text=True)
        self.assertEqual(read.stdout, "kept\n")


class CommandTest(unittest.TestCase):
    def test_lightq_unknown_verb_is_usage(self):
        done = subprocess.run([BIN / "lightq", "no-such-verb"], capture_output=True, text=True, check=False)

        self.assertEqual(done.returncode, 2)
        self.assertIn("no-such-verb", done.stderr)

    def test_lightq_no_server_fails_in_time_and_says_what_to_do(self):  # K7
        base = free_port_base()
        with socket.socket() as silent:  # taken, so that nobody else listens there
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            silent.bind(("127.0.0.1", base))
            done = subprocess.run([BIN / "lightq", "--servers", f"127.0.0.1:{base}", "produce", "t", "--count", "1",
                                   "--size", "10", "--timeout", "2000"], capture_output=True, text=True, check=False,
                                  timeout=20 * SLOW)

        self.assertEqual(done.returncode, 1)
        self.assertIn(str(base), done.stderr)


class StrangerTest(unittest.TestCase):
    """L1, L2, L3, L7, J9: bytes from strangers on every port of a running node."""

    def setUp(self):
        self.cluster = Cluster().up()
        self.addCleanup(self.cluster.close)
        client = int(self.cluster.environment["LIGHTQ_CLUSTER_PORT"])
        self.ports = [client, client + 100, client + 200]
        self.cluster.lightq("topic", "create", "t")

    def throw(self, port, data):
        with socket.socket() as stranger:
            stranger.settimeout(20 * SLOW)
            try:
                stranger.connect(("127.0.0.1", port))
                stranger.settimeout(2)  # silence is a right answer
                stranger.sendall(data)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(65536):
                    pass
            except OSError:
                pass  # refused, reset or silent: all are right; what matters is that the node lives

    def memory_kib(self):
        pid = int((self.cluster.folder / "cluster" / "n1" / "pid").read_text())
        status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])

    def get(self, path):
        with socket.socket() as http:
            http.settimeout(20 * SLOW)
            http.connect(("127.0.0.1", self.ports[2]))
            http.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while chunk := http.recv(65536):
                answer += chunk
            return answer.decode()

    def metric(self, name):
        line = next(line for line in self.get("/metrics").splitlines() if line.startswith(f"lightq_{name} "))
        return int(line.split()[1])

    def test_node_strangers_bytes_are_survived(self):
        dice = random.Random(20261130)
        before = self.memory_kib()
        for port in self.ports:
            for size in (0, 1, 7, 64, 4096, 200000):
                self.throw(port, dice.randbytes(size))
            for length in (0, 1, 2**31, 2**32 - 1):
                self.throw(port, struct.pack("<I", length) + dice.randbytes(40))
            self.throw(port, b"GET / HTTP/1.0\r\n\r\n")
            self.throw(port, b"\xff" * 10 + b"\x7f" + b"\x00" * 60)

        self.cluster.lightq("produce", "t", "--count", 1000, "--size", 100)
        self.assertLess(self.memory_kib(), before + 64 * 1024)
        wait_for(lambda: self.metric("client_handshakes_bad_total") >= 10, "bad handshakes counted")

    def test_node_forged_routing_ids_are_told_and_closed(self):  # L10; libzmq 4.3.4 ends the process
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)
        for number in range(20):
            identity = b"\0" + struct.pack(">I", number)
            ready = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\x05" + identity
            with socket.socket() as forger:
                forger.settimeout(20 * SLOW)
                forger.connect(("127.0.0.1", self.ports[0]))
                forger.sendall(greeting + bytes([4, len(ready)]) + ready)
                answer = b""
                while chunk := forger.recv(65536):
                    answer += chunk
            self.assertTrue(answer.startswith(greeting[:1]), answer)
            self.assertIn(b"ERROR", answer)

        wait_for(lambda: self.metric("client_handshakes_bad_total") == 20, "each of them counted")
        self.cluster.lightq("produce", "t", "--count", 1000, "--size", 100)

    def test_node_lost_connection_ends_its_session_at_once(self):
        consumer = subprocess.Popen([BIN / "lightq", "consume", "t"], env=dict(os.environ, **self.cluster.environment),
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: self.metric("sessions") > 0, "a session")
        finally:
            consumer.kill()
            consumer.wait()

        wait_for(lambda: self.metric("sessions") == 0, "the end of the session", 5)  # its time-out is 10 s
        self.assertEqual(self.metric("sessions_expired_total"), 0)

    def test_node_many_silent_connections_do_not_shut_others_out(self):
        silent = []
        try:
            for port in self.ports[:2]:
                for _ in range(200):
                    stranger = socket.socket()
                    stranger.settimeout(2)
                    silent.append(stranger)
                    try:
                        stranger.connect(("127.0.0.1", port))
                    except OSError:
                        pass  # refusing is a right answer too

            self.cluster.lightq("produce", "t", "--count", 1000, "--size", 100)
            self.cluster.script("kill", 1)
            self.cluster.lightq("produce", "t", "--count", 1000, "--size", 100)
        finally:
            for stranger in silent:
                stranger.close()
        self.cluster.script("start", 1)
        self.cluster.wait_equal("t")

    def test_node_oversized_message_alone_fails(self):
        path = self.cluster.folder / "big"
        path.write_bytes(b"x" * (1024 * 1024 + 1) + b"\n")

        refused = self.cluster.lightq("produce", "t", "--file", path, check=False)

        self.assertEqual(refused.returncode, 1)
        self.assertIn("ETOOBIG", refused.stderr)
        self.cluster.lightq("produce", "t", data="small\n")

    def test_node_health_and_metrics_answer(self):
        wait_for(lambda: self.get("/health").startswith("HTTP/1.1 200"), "health")
        self.assertIn("lightq_", self.get("/metrics"))
        self.assertTrue(self.get("/nothing").startswith("HTTP/1.1 404"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
