"""A small Petrel client on the websockets library, written from proto/README.md alone.

It speaks JSON. It is blocking: call() waits for the answer with the same id, and keeps what the server sends of its
own accord in self.events meanwhile.
"""
import json
import secrets
import time

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

TIMEOUT = 60  # seconds, for anything that is waited for: only a fault meets it


class Refused(Exception):
    """An error frame. Branch on .code (P-2.2)."""

    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.error = error
        self.code = error.get("code")


class Ended(Exception):
    """The server ended the connection: .frame is what it said before, .close and .reason the close frame (P-1.6)."""

    def __init__(self, frame, close, reason):
        super().__init__(f"connection ended: {frame} close {close} {reason!r}")
        self.frame, self.close, self.reason = frame, close, reason


def new_id():
    return secrets.token_hex(16)


class Client:
    def __init__(self, url, token=None, **hello):
        self.ws = connect(url, max_size=1 << 24, open_timeout=TIMEOUT, ping_interval=None)
        self.next_id = 0
        self.events = []  # entries that were pushed, oldest first
        self.pings = 0
        self.lagged = 0
        self.last = None  # the error or kick that announced the end
        self.welcome = None
        if token is not None:
            self.welcome = self.hello(token, **hello)

    def hello(self, token, **more):
        body = {"versionMin": 1, "versionMax": 1, "token": token, "device": "python-1", "client": "foreign-python/1"}
        return self.call(hello={**body, **more})["welcome"]

    def write(self, **frame):
        self.ws.send(json.dumps(frame))

    def call(self, **body):
        """Sends one request and returns the answer's frame. Raises Refused or Ended."""
        rid = self.begin(**body)
        return self.answer(rid)

    def begin(self, **body):
        """Sends one request, under an id that no unanswered one has (P-2.1)."""
        self.next_id += 1
        self.write(id=str(self.next_id), **body)
        return str(self.next_id)

    def answer(self, rid):
        deadline = time.monotonic() + TIMEOUT
        while True:
            frame = self.read(deadline)
            if frame.get("id") == rid:
                if "error" in frame:
                    raise Refused(frame["error"])
                return frame

    def read(self, deadline):
        """Reads one frame and does what every frame asks for."""
        try:
            message = self.ws.recv(timeout=max(0.01, deadline - time.monotonic()))
        except ConnectionClosed as e:
            close = e.rcvd.code if e.rcvd else None
            raise Ended(self.last, close, e.rcvd.reason if e.rcvd else None) from None
        assert isinstance(message, str), "a JSON session got a binary message"
        frame = json.loads(message)
        if "events" in frame:
            self.events += frame["events"].get("messages", [])
        elif "ping" in frame:
            self.pings += 1
            self.write(pong={})
        elif "lagged" in frame:
            self.lagged += 1
        elif "kick" in frame or "error" in frame:
            self.last = frame
        return frame

    def wait_event(self, match, seconds=TIMEOUT):
        """Waits for a pushed entry and takes it and all before it out of self.events."""
        deadline = time.monotonic() + seconds
        while True:
            for i, m in enumerate(self.events):
                if match(m):
                    del self.events[: i + 1]
                    return m
            self.read(deadline)

    def wait_end(self, seconds=TIMEOUT):
        """Reads until the server ends the connection, and tells how."""
        deadline = time.monotonic() + seconds
        try:
            while True:
                self.read(deadline)
        except Ended as e:
            return e

    def sync(self, token=None):
        """Reads all pages: the conversations by id, and the last token (P-6.2)."""
        convs = {}
        while True:
            page = self.call(sync={"token": token} if token else {})["sync"]
            convs.update({c["conv"]: c for c in page.get("convs", [])})
            token = page.get("token", token)
            if not page.get("more"):
                return convs, token

    def send_text(self, text, k=None, after=None, **target):
        """Sends one text and returns the ack."""
        body = {**target, "clientMsgId": k or new_id(), "text": text}
        if after is not None:
            body["after"] = str(after)
        return self.call(send=body)["ack"]

    def history(self, conv, **args):
        return self.call(history={"conv": conv, **args})["history"]

    def head(self, conv):
        """The head of a conversation, 0 if it has none yet."""
        return int(self.history(conv, limit=1).get("head", "0"))

    def close(self):
        self.ws.close()
