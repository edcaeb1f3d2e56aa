#!/usr/bin/env python3
"""Tests of arrows.py: violations planted in a tree of their own are found, and what is allowed is not."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arrows  # noqa: E402


class ArrowsTest(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.TemporaryDirectory()
        for path in ("client/base/err.h", "client/wire/frame.h", "client/lib/conn.h", "client/cli/tool.h",
                     "client/include/lightq/status.h", "storage/store.h", "raft/host.h", "node/shard.h",
                     "tests/lib/help.h", "chaos/sim/net.h"):
            self.plant(path, "/* a header */\n")

    def tearDown(self):
        self.tree.cleanup()

    def plant(self, path, text):
        full = os.path.join(self.tree.name, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def found(self):
        return arrows.Checker(self.tree.name).check_tree()

    def assert_clean(self, path, text):
        self.plant(path, text)
        self.assertEqual(self.found(), [])

    def assert_found(self, path, text, what, line=1):
        self.plant(path, text)
        found = self.found()
        self.assertEqual([(where, number) for where, number, _ in found], [(path, line)], found)
        self.assertIn(what, found[0][2])
        os.remove(os.path.join(self.tree.name, path))

    def test_arrows_that_point_right_are_found(self):
        for path, header, what in (
                ("client/base/a.c", "client/wire/frame.h", "base must not use wire"),
                ("client/wire/a.c", "client/lib/conn.h", "wire must not use lib"),
                ("client/lib/a.c", "client/cli/tool.h", "lib must not use cli"),
                ("client/lib/a.c", "storage/store.h", "lib must not use storage"),
                ("storage/a.c", "client/wire/frame.h", "storage must not use wire"),
                ("storage/a.c", "raft/host.h", "storage must not use raft"),
                ("raft/a.c", "node/shard.h", "raft must not use node"),
                ("raft/a.c", "client/wire/frame.h", "raft must not use wire"),
                ("node/a.c", "client/cli/tool.h", "node must not use cli"),
                ("node/a.c", "tests/lib/help.h", "node must not use tests"),
                ("node/queue/a.h", "chaos/sim/net.h", "node must not use chaos"),
                ("docs/examples/a.c", "client/base/err.h", "docs must not use base"),
                ("client/include/lightq/a.h", "client/base/err.h", "public must not use base")):
            with self.subTest(path=path, header=header):
                self.assert_found(path, f'#include "{header}"\n', what)

    def test_arrows_that_point_left_are_allowed(self):
        for path, header in (
                ("client/wire/a.c", "client/base/err.h"), ("client/lib/a.c", "client/wire/frame.h"),
                ("client/cli/a.c", "client/lib/conn.h"), ("storage/a.c", "client/base/err.h"),
                ("raft/a.c", "storage/store.h"), ("node/a.c", "raft/host.h"), ("node/a.c", "client/lib/conn.h"),
                ("node/queue/a.c", "node/shard.h"), ("tests/a.c", "node/shard.h"), ("chaos/a.c", "tests/lib/help.h")):
            with self.subTest(path=path, header=header):
                self.assert_clean(path, f'#include "{header}"\n#include <stdio.h>\n#include <lightq/status.h>\n')

    def test_foreign_headers_outside_their_owners_are_found(self):
        for path, header in (
                ("node/session.c", "zmq.h"), ("node/front.c", "zmq.h"), ("client/lib/a.c", "czmq.h"),
                ("node/raft.c", "raft.h"), ("storage/a.c", "raft/fixture.h"), ("tests/unit/node/a.c", "raft.h"),
                ("node/produce.c", "protobuf-c/protobuf-c.h"), ("node/http.c", "microhttpd.h"),
                ("node/gateway/socket.c", "microhttpd.h"), ("storage/flusher.c", "uv.h"), ("raft/host.c", "uv.h"),
                ("client/lib/a.c", "uv.h"), ("client/lib/a.c", "lz4.h"), ("storage/a.c", "isa-l/crc.h"),
                ("client/base/conf.c", "ini.h"), ("node/a.c", "cmocka.h")):
            with self.subTest(path=path, header=header):
                self.assert_found(path, f"/* a */\n#include <{header}>\n", f"<{header}>: belongs to", line=2)

    def test_foreign_headers_of_their_owners_are_allowed(self):
        for path, header in (
                ("node/gateway/json.c", "czmq.h"), ("tests/lib/broker.c", "zmq.h"), ("raft/group.c", "raft.h"),
                ("chaos/sim/a.c", "raft.h"),
                ("tests/unit/raft/a.c", "raft.h"), ("client/wire/codec.c", "protobuf-c/protobuf-c.h"),
                ("node/gateway/http_admin.c", "microhttpd.h"), ("storage/io_uv_op.c", "uv.h"),
                ("raft/transport.c", "uv.h"), ("node/main.c", "uv.h")):
            with self.subTest(path=path, header=header):
                self.assert_clean(path, f"#include <{header}>\n")

    def test_generated_header_is_included_through_codec_only(self):
        self.assert_clean("client/wire/codec.h", '#include "client/wire/lightq.pb-c.h"\n')
        self.assert_found("node/a.c", '#include "client/wire/lightq.pb-c.h"\n', "include client/wire/codec.h instead")

    def test_file_system_calls_are_found(self):
        for call in ("int fd = open(path, 0);", "if (pwrite(fd, b, n, 0) < 0) {", "return fdatasync(fd);",
                     "(void)rename(a, b);", "unlink (path);", "FILE *f = fopen(path, mode);", "x = opendir(p);"):
            with self.subTest(call=call):
                self.assert_found("storage/segment.c", f"void f(void)\n{{\n    {call}\n}}\n", "the file system", line=3)

    def test_clock_and_random_calls_are_found(self):
        for call in ("now = time(NULL);", "clock_gettime(CLOCK_MONOTONIC, &t);", "return rand() % 6;",
                     "getrandom(b, 8, 0);", "t = uv_hrtime();"):
            with self.subTest(call=call):
                self.assert_found("node/a.c", f"void f(void)\n{{\n    {call}\n}}\n", "a clock or a random source",
                                  line=3)

    def test_calls_of_the_owners_and_the_excepted_are_allowed(self):
        self.assert_clean("storage/io_uv_file.c", "int f(void)\n{\n    return open(path, 0);\n}\n")
        self.assert_clean("client/base/clock.c", "int f(void)\n{\n    return clock_gettime(0, 0);\n}\n")
        self.assert_clean("node/options.c", "int f(void)\n{\n    return fopen(path, mode);\n}\n")
        self.assert_clean("client/cli/consume.c", "int f(void)\n{\n    return fopen(path, mode);\n}\n")
        self.assert_clean("tests/unit/storage/a.c", "int f(void)\n{\n    return unlink(path);\n}\n")
        self.assert_found("client/cli/other.c", "int f(void)\n{\n    return unlink(path);\n}\n", "unlink()", line=3)

    def test_what_only_looks_like_a_call_is_allowed(self):
        self.assert_clean("raft/a.c", "\n".join([
            "/* open(path) and time(NULL) in a comment */", "// rename(a, b)",
            "static int open(struct group *group);", "lightq_status rename(const char *from);",
            "void f(void)", "{", "    io->ops->open(io, path);", "    clock.random(clock);",
            '    log("time(NULL)");', "    reopen(path);", "    my_time(3);", "}", ""]))

    def test_includes_of_sources_are_found(self):
        self.plant("storage/segment.c", "\n")
        self.assert_found("tests/unit/a.c", '#include "storage/segment.c"\n', "a .c file is never included")

    def test_includes_that_are_not_from_the_root_are_found(self):
        self.plant("raft/rpc.h", "\n")
        self.assert_found("raft/a.c", '#include "rpc.h"\n', "not a path from the root")

    def test_headers_beside_a_test_are_allowed_by_bare_name(self):
        self.plant("tests/unit/node/fixture.h", "\n")
        self.assert_clean("tests/unit/node/a.c", '#include "fixture.h"\n')
        self.assert_found("tests/unit/raft/a.c", '#include "fixture.h"\n', "not a path from the root")
        self.plant("node/beside.h", "\n")
        self.assert_found("node/a.c", '#include "beside.h"\n', "not a path from the root")

    def test_includes_in_comments_are_not_looked_at(self):
        self.assert_clean("client/base/a.c", '/*\n#include "node/shard.h"\n*/\n// #include "node/shard.h"\n')

    def test_files_that_are_too_long_are_found(self):
        self.assert_clean("node/long.c", "\n" * arrows.LINES_MAX)
        os.remove(os.path.join(self.tree.name, "node/long.c"))
        for path in ("node/longer.c", "chaos/longer.py", "deploy/longer.sh"):
            with self.subTest(path=path):
                self.assert_found(path, "\n" * (arrows.LINES_MAX + 1), "801 lines", line=arrows.LINES_MAX + 1)

    def test_tests_may_be_longer_but_not_endless(self):
        self.assert_clean("tests/unit/list.c", "\n" * arrows.TEST_LINES_MAX)
        self.assert_found("tests/unit/list.c", "\n" * (arrows.TEST_LINES_MAX + 1), "1201 lines",
                          line=arrows.TEST_LINES_MAX + 1)

    def test_main_says_where_and_fails(self):
        self.assertEqual(arrows.main(["arrows.py", self.tree.name]), 0)
        self.plant("client/base/a.c", '#include "node/shard.h"\n')
        self.assertEqual(arrows.main(["arrows.py", self.tree.name]), 1)


if __name__ == "__main__":
    unittest.main()
