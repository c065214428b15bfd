"""Plain TCP by the standard library's sockets, written from proto/README.md alone: JSON lines, and protobuf behind a
length. Each test names the clauses it checks."""
import glob
import json
import os
import secrets
import socket
import struct
import time
import unittest

HOST, PORT = os.environ["PETREL_TCP"].rsplit(":", 1)
VECTORS = os.path.join(os.path.dirname(__file__), "../../../proto/vectors")
with open(os.environ["PETREL_TOKENS"]) as f:
    TOKENS = json.load(f)


LIMIT = 60  # seconds for what the server has to do: only a fault meets it


def connect():
    return socket.create_connection((HOST, int(PORT)), timeout=LIMIT)


class Lines:
    """A session in JSON: one object on each line."""

    def __init__(self, token=None):
        self.sock = connect()
        self.lines = self.sock.makefile("rb")
        self.events, self.next_id = [], 0
        if token:
            self.welcome = self.call(hello={"versionMin": 1, "versionMax": 1, "token": token, "client": "foreign-tcp/1"})["welcome"]

    def write(self, text):
        self.sock.sendall(text if isinstance(text, bytes) else text.encode() + b"\n")

    def read(self):
        """One frame; None when the server has closed."""
        line = self.lines.readline()
        if not line:
            return None
        assert line.endswith(b"\n"), line
        frame = json.loads(line)
        if "ping" in frame:
            self.write('{"pong":{}}')
        self.events += frame.get("events", {}).get("messages", [])
        return frame

    def call(self, **body):
        self.next_id += 1
        self.write(json.dumps({"id": str(self.next_id), **body}))
        while True:
            frame = self.read()
            assert frame is not None, "the server closed"
            if frame.get("id") == str(self.next_id):
                return frame

    def event(self):
        while not self.events:
            assert self.read() is not None, "the server closed"
        return self.events.pop(0)

    def end(self):
        """Reads until the server closes; the last frame. A server that only pings does not close."""
        last, deadline = None, time.monotonic() + LIMIT
        while (frame := self.read()) is not None:
            last = frame
            assert time.monotonic() < deadline, f"the server does not close, and wrote {frame}"
        return last

    def close(self):
        self.lines.close()
        self.sock.close()


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + (value.encode() if isinstance(value, str) else value)


def head(session, peer):
    """The head of the direct conversation with peer, by a sync; None while it is not listed (P-6.3)."""
    for c in session.call(sync={})["sync"].get("convs", []):
        if c.get("peer") == peer:
            return int(c["head"])


def setUpModule():
    alice = Lines(TOKENS["alice"])
    alice.call(send={"user": "bob", "clientMsgId": secrets.token_hex(16), "text": "first"})
    deadline = time.monotonic() + LIMIT
    while head(alice, "bob") is None:
        assert time.monotonic() < deadline, "the sync does not list the conversation"
    alice.close()


class Case(unittest.TestCase):
    def session(self, user=None):
        s = Lines(TOKENS[user] if user else None)
        self.addCleanup(s.close)
        return s


class JSONLines(Case):
    def test_messages_go_both_ways(self):
        """P-1.2, P-4.1, P-6.1"""
        alice, bob = self.session("alice"), self.session("bob")
        before = head(alice, "bob")
        bob.call(sync={})
        ack = alice.call(send={"user": "bob", "clientMsgId": secrets.token_hex(16), "after": str(before), "text": "over tcp\nin two lines"})["ack"]
        m = bob.event()
        self.assertEqual((m["conv"], m["seq"], m["from"], m["text"]), (ack["conv"], ack["seq"], "alice", "over tcp\nin two lines"))
        back = bob.call(send={"conv": m["conv"], "clientMsgId": secrets.token_hex(16), "after": m["seq"], "text": "hi"})["ack"]
        self.assertEqual(alice.event()["seq"], back["seq"])

    def test_a_resend_gets_the_same_seq_and_another_body_a_conflict(self):
        """P-4.4"""
        alice = self.session("alice")
        send = {"user": "bob", "clientMsgId": secrets.token_hex(16), "after": str(head(alice, "bob")), "text": "once"}
        first = alice.call(send=send)["ack"]
        again = self.session("alice")
        self.assertEqual(again.call(send=send)["ack"]["seq"], first["seq"])
        error = again.call(send={**send, "text": "twice"})["error"]
        self.assertEqual((error["code"], error["settled"]), ("conflict", True))

    def test_what_came_while_away_is_found(self):
        """P-5.2, P-6.2"""
        bob = self.session("bob")
        token = bob.call(sync={})["sync"]["token"]
        bob.close()
        alice = self.session("alice")
        before = head(alice, "bob")
        for i in range(6):
            alice.call(send={"user": "bob", "clientMsgId": secrets.token_hex(16), "after": str(before), "text": f"away {i}"})
        bob = self.session("bob")
        state = [c for c in bob.call(sync={"token": token})["sync"]["convs"] if c.get("peer") == "alice"][0]
        self.assertEqual(int(state["head"]), before + 6)
        texts, after, more = [], before, True
        while more:
            page = bob.call(history={"conv": state["conv"], "after": str(after), "limit": 4})["history"]
            texts += [m["text"] for m in page["messages"]]
            after, more = page["messages"][-1]["seq"], page.get("more", False)
        self.assertEqual(texts, [f"away {i}" for i in range(6)])

    def test_several_lines_in_one_write_and_one_line_in_many_writes(self):
        s = self.session("alice")
        s.write(b'{"id":"50","ping":{}}\n{"id":"51","ping":{}}\r\n{"id":"5')
        s.write(b'2","ping"')
        s.write(b':{}}\n')
        self.assertEqual([s.read() for _ in range(3)], [{"id": str(i), "pong": {}} for i in (50, 51, 52)])

    def test_connections_end_with_the_named_error(self):
        """P-3.1, P-3.2, P-3.3, P-2.3, P-2.4, P-2.5: the frame, then the end of the stream"""
        hello = {"versionMin": 1, "versionMax": 1, "token": TOKENS["alice"]}
        for user, content, body, code in (
            (None, b"\x16\x03\x01\x02\x00 this is TLS", "kick", "unknown_codec"),
            (None, '{"id":"1","ping":{}}', "kick", "hello_expected"),
            (None, json.dumps({"id": "1", "hello": {**hello, "versionMin": 2, "versionMax": 2}}), "error", "version_unsupported"),
            (None, json.dumps({"id": "1", "hello": {**hello, "token": "x"}}), "error", "unauthenticated"),
            ("alice", json.dumps({"id": "9", "hello": hello}), "kick", "hello_expected"),
            ("alice", "{", "kick", "bad_frame"),
            ("alice", "", "kick", "bad_frame"),
            ("alice", b'{"send":{"text":"\xff"}}\n', "kick", "bad_utf8"),
            ("alice", b"\x00\x00\x00\x04\x08\x02\x42\x00\n", "kick", "bad_frame"),
            ("alice", " " * (1 << 19), "kick", "frame_too_large"),
            (None, "{" + " " * 8192, "kick", "frame_too_large"),
        ):
            with self.subTest(user=user, content=content[:60]):
                s = self.session(user)
                s.write(content)
                self.assertEqual((s.end() or {}).get(body, {}).get("code"), code)


    def test_a_malformed_frame_with_an_id_is_answered_and_the_connection_stays(self):
        """P-2.3, P-2.4"""
        s = self.session("alice")
        for content in (b'{"id":"9","send":{"text":"\xff"}}\n', '{"id":"9","send":{"text":"\\ud800"}}', '{"id":"9","send":{"text":7}}', '{"id":"9"}'):
            with self.subTest(content):
                s.write(content)
                frame = s.read()
                self.assertEqual((frame["id"], frame["error"]["code"], frame["error"]["settled"]), ("9", "invalid", True))
        self.assertEqual(s.call(ping={})["pong"], {})

    def test_a_body_of_the_largest_size_fits_with_every_escape(self):
        """P-2.5, P-4.2, P-4.6"""
        s = self.session("alice")
        size = s.welcome["limits"]["bodyBytes"]
        text = "\x01" * size
        ack = s.call(send={"user": "bob", "clientMsgId": secrets.token_hex(16), "after": str(head(s, "bob")), "text": text})["ack"]
        page = s.call(history={"conv": ack["conv"], "after": str(int(ack["seq"]) - 1)})["history"]
        self.assertEqual(page["messages"][0]["text"], text)
        error = s.call(send={"user": "bob", "clientMsgId": secrets.token_hex(16), "after": ack["seq"], "text": text + "x"})["error"]
        self.assertEqual((error["code"], error["settled"]), ("too_large", True))


class Protobuf(Case):
    def connect(self):
        sock = connect()
        self.addCleanup(sock.close)
        return sock, sock.makefile("rb")

    def frame(self, lines):
        n = struct.unpack(">I", lines.read(4))[0]
        return lines.read(n)

    def hello(self, size=None):
        pad = ""
        while True:
            b = field(1, 1) + field(2, field(1, 1) + field(2, 1) + field(3, TOKENS["alice"]) + field(6, "tcp" + pad))
            if size is None or len(b) >= size:
                return b
            pad += "x"

    def test_a_hello_of_123_bytes_is_protobuf(self):
        """P-1.3: 123 is 0x7B, the first byte of JSON"""
        hello = self.hello(123)
        self.assertEqual(len(hello), 123)
        sock, lines = self.connect()
        sock.sendall(struct.pack(">I", len(hello)) + hello)
        self.assertEqual(self.frame(lines)[:3], b"\x08\x01\x12")  # id 1, welcome

    def test_frames_arrive_in_pieces_and_together(self):
        """P-1.2"""
        sock, lines = self.connect()
        hello = self.hello()
        for b in struct.pack(">I", len(hello)) + hello:
            sock.sendall(bytes([b]))
        self.frame(lines)
        ping = struct.pack(">I", 4) + b"\x08\x07\x42\x00"
        sock.sendall(ping * 3)
        self.assertEqual([self.frame(lines) for _ in range(3)], [b"\x08\x07\x5a\x00"] * 3)

    def test_bad_frames_of_the_vectors_end_as_they_say(self):
        for name in sorted(glob.glob(os.path.join(VECTORS, "bad-*.txt"))):
            with open(name, encoding="utf-8") as f:
                v = dict(line.rstrip("\n").split(": ", 1) for line in f)
            if v["on"] != "tcp":
                continue  # test/foreign/python plays these
            content = bytes.fromhex(v["hex"]) if "hex" in v else v["text"].encode()
            with self.subTest(os.path.basename(name)):
                sock, lines = self.connect()
                sock.sendall(content)
                answer = lines.read()
                self.assertIn(v["code"].encode(), answer)
                if content[0] != 0:
                    self.assertEqual(json.loads(answer)["kick"]["code"], v["code"])
                else:
                    self.assertEqual(struct.unpack(">I", answer[:4])[0], len(answer) - 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
