"""WebSocket by hand, for what a library refuses to send: unmasked frames, wrong bytes."""
import base64
import json
import os
import socket
import struct
from urllib.parse import urlsplit


def varint(n):
    out = b""
    while True:
        n, low = n >> 7, n & 0x7F
        if n == 0:
            return out + bytes([low])
        out += bytes([low | 0x80])


def field(number, value):
    """One protobuf field: an int as varint, text or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def protobuf_hello(token, pad=""):
    """A ClientFrame with a hello, by the field numbers of frames.proto."""
    return field(1, 1) + field(2, field(1, 1) + field(2, 1) + field(3, token) + field(6, "raw/1" + pad))


def top_fields(b):
    """The fields of one protobuf message as (number, value)."""
    out, i = [], 0

    def take():
        nonlocal i
        shift = n = 0
        while True:
            n |= (b[i] & 0x7F) << shift
            shift += 7
            i += 1
            if b[i - 1] < 0x80:
                return n

    while i < len(b):
        tag = take()
        if tag & 7 == 0:
            out.append((tag >> 3, take()))
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            n = take()
            out.append((tag >> 3, b[i : i + n]))
            i += n
    return out


class RawWebSocket:
    def __init__(self, url, timeout=60):
        u = urlsplit(url)
        self.sock = socket.create_connection((u.hostname, u.port or 80), timeout=timeout)
        self.buf = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.sock.sendall(
            f"GET {u.path} HTTP/1.1\r\nHost: {u.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self.buf:
            self.more()
        head, self.buf = self.buf.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 101"), head

    def more(self):
        b = self.sock.recv(65536)
        if not b:
            raise EOFError
        self.buf += b

    def need(self, n):
        while len(self.buf) < n:
            self.more()
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def send(self, content, opcode=1, first=0x80):
        """One masked frame; first carries FIN and the reserved bits."""
        mask = os.urandom(4)
        n = len(content)
        if n < 126:
            size = bytes([0x80 | n])
        elif n < 65536:
            size = bytes([0xFE]) + struct.pack(">H", n)
        else:
            size = bytes([0xFF]) + struct.pack(">Q", n)
        self.sock.sendall(bytes([first | opcode]) + size + mask + bytes(c ^ mask[i & 3] for i, c in enumerate(content)))

    def recv(self):
        """One frame as (opcode, content)."""
        head = self.need(2)
        assert head[1] < 0x80, "a server must not mask"
        n = head[1]
        if n == 126:
            n = struct.unpack(">H", self.need(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self.need(8))[0]
        return head[0] & 15, self.need(n)

    def end(self):
        """Reads until the close frame: (the last JSON frame or bytes, close code, reason)."""
        last = None
        while True:
            opcode, content = self.recv()
            if opcode == 8:
                return last, struct.unpack(">H", content[:2])[0], content[2:].decode()
            last = json.loads(content) if opcode == 1 else content

    def close(self):
        self.sock.close()
