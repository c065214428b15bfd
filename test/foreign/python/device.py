"""A device that runs for a long time, written from proto/README.md alone: it keeps what it was told, as a phone does.

It syncs with a token, keeps the entries of each conversation by seq, fills gaps from the history, sends its outbox again
with the same ids and the same `after`, and begins anew under another history id, or when it sees that the server went back (P-6.8).

The first line of the standard input is its options: {"addresses": ["ws://HOST:PORT"], "token": "pt_…", "device": "d",
"waitMs": 1000, "maxWaitMs": 30000}. Each further line is a command, and gets one line of JSON as its answer:

    {"do": "write", "conv": "g…", "everyMs": 20}   compose texts from now on; at most PENDING wait for their acks
    {"do": "pause"}                                compose nothing more
    {"do": "reconnect"}                            end the connection, and make another
    {"do": "count"}                                how far this device is
    {"do": "show"}                                 what it holds
"""
import asyncio
import json
import os
import random
import secrets
import sys
import time
import traceback
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

PENDING = 4
GIVE_UP = 30 * 24 * 3600  # seconds after a message was composed (P-4.8)
FINAL_CLOSES = {1002, 1007, 4400, 4401, 4403, 4406, 4411, 4415}  # close codes without reconnect, of errors.yaml


class Refused(Exception):
    """An error frame that answers a request."""

    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.error, self.code = error, error.get("code")


class Ended(Exception):
    """The connection is over; final means that a person has to do something first (P-3.5)."""

    def __init__(self, why, wait=None, final=False):
        super().__init__(why)
        self.wait, self.final = wait, final


class WentBack(Exception):
    """The server holds an earlier state than what it has told this device (P-6.8)."""


def number(value):
    return int(value or 0)  # 64-bit numbers are texts, and a missing one is 0 (P-1.4)


class Conversation:
    """P-6.7: have is the seq up to which messages has everything; what came from above it waits in held."""

    def __init__(self, conv):
        self.conv, self.state = conv, {}
        self.head = self.have = 0
        self.messages, self.held = {}, {}
        self.trouble = None  # code of the error for which it cannot be read now
        self.repairing = None  # task

    def entry(self, m):
        """An entry of an event, an ack or a page. Returns whether a gap is before it."""
        seq = number(m["seq"])
        self.head = max(self.head, seq)
        known = self.messages.get(seq) or self.held.get(seq)
        if known:
            self.compare(known, m)
        if seq <= self.have:
            self.newer(seq, m)
            return False
        self.held[seq] = m
        self.advance()
        return self.have < self.head

    def compare(self, known, m):
        if (known.get("from"), known.get("clientMsgId")) != (m.get("from"), m.get("clientMsgId")):
            raise WentBack(f"{self.conv} seq {m['seq']} was {known.get('clientMsgId')} and is {m.get('clientMsgId')}")

    def newer(self, seq, m):
        """Of two copies the one that was rewritten later holds (P-6.1)."""
        known = self.messages.get(seq)
        if known and (number(m.get("recalledBy")), number(m.get("editedBy"))) > (number(known.get("recalledBy")), number(known.get("editedBy"))):
            self.messages[seq] = m

    def advance(self):
        while self.have + 1 in self.held:
            self.have += 1
            self.take(self.have)

    def take(self, seq):
        m = self.messages[seq] = self.held.pop(seq)
        for kind in ("edit", "recall"):
            if kind in m:
                self.rewrite(kind, seq, m[kind])

    def rewrite(self, kind, by, change):
        """P-5.3: the highest seq wins, and nothing rewrites a recalled entry."""
        target = number(change.get("target"))
        m = self.messages.get(target)
        if not m or "recalledBy" in m or number(m.get("editedBy")) >= by:
            return
        m = {k: v for k, v in m.items() if k not in ("text", "data", "type")}
        if kind == "edit":
            m.update({k: change[k] for k in ("text", "data", "type") if k in change}, editedBy=str(by))
        else:
            m["recalledBy"] = str(by)
        self.messages[target] = m
        for seq, e in self.messages.items():  # earlier edits of the target lose their body
            if seq < by and "edit" in e and number(e["edit"].get("target")) == target:
                self.messages[seq] = {**e, "edit": {"target": e["edit"]["target"]}, "editedBy": str(by)}

    def page(self, page):
        """A history page after have: what is missing between its entries nobody lets this user read (P-5.2)."""
        for m in page.get("messages", []):
            seq = number(m["seq"])
            known = self.messages.get(seq) or self.held.get(seq)
            if known:
                self.compare(known, m)
            if seq > self.have:
                self.held[seq] = m
                self.have = seq
                self.take(seq)
            else:
                self.newer(seq, m)
        if not page.get("more"):
            self.have = max(self.have, number(page.get("head")))
        self.head = max(self.head, number(page.get("head")))
        self.held = {s: m for s, m in self.held.items() if s > self.have}
        self.advance()


class Device:
    def __init__(self, options):
        self.urls, self.token, self.device = [websocket(u) for u in options["addresses"]], options["token"], options["device"]
        self.wait, self.max_wait = options.get("waitMs", 1000) / 1000, options.get("maxWaitMs", 30000) / 1000
        self.gateways = []
        self.history_id = self.sync_token = None
        self.convs = {}
        self.outbox = []  # messages that have no outcome yet, oldest first
        self.acked, self.rejected, self.unknown = {}, {}, []
        self.resets, self.went_back = 0, []
        self.syncs, self.sync_began = 0, 0.0  # those that were answered; when the newest was sent
        self.state, self.user, self.inbox = "offline", None, None
        self.connection = None
        self.composed = 0
        self.writing = None

    # --- what is kept

    def forget(self):
        """P-3.4, P-6.6: messages, heads and the token go. What has to be sent stays."""
        self.convs, self.sync_token = {}, None
        self.resets += 1
        for m in self.outbox:
            if m["tried"]:
                m["look"] = True
            else:
                m["after"] = None  # of the history that is gone

    def conversation(self, conv):
        return self.convs.setdefault(conv, Conversation(conv))

    def compose(self, conv, text):
        m = {"conv": conv, "clientMsgId": secrets.token_hex(16), "after": self.conversation(conv).head, "text": text,
             "composed": time.time(), "tried": False, "doubt": False, "look": False}
        self.outbox.append(m)
        self.outgoing.set()

    def count(self):
        return {"state": self.state, "historyId": self.history_id, "acked": len(self.acked), "outbox": len(self.outbox),
                "syncs": self.syncs, "syncBegan": self.sync_began, "resets": self.resets, "wentBack": self.went_back}

    def show(self):
        return {
            "rejected": self.rejected, "unknown": self.unknown, "outbox": [m["clientMsgId"] for m in self.outbox],
            "convs": {c.conv: {"head": c.head, "have": c.have, "title": c.state.get("title", ""), "trouble": c.trouble,
                               "messages": [c.messages[s] for s in sorted(c.messages)]} for c in self.convs.values()},
        }

    # --- connections

    async def run(self):
        self.outgoing = asyncio.Event()
        wait, attempt = self.wait, 0
        while True:
            addresses = self.gateways + self.urls
            connection = self.connection = Connection(self)
            pause = None
            try:
                await connection.run(addresses[attempt % len(addresses)])
            except Ended as e:
                print(f"{self.device}: {e}", file=sys.stderr, flush=True)
                if e.final:
                    self.state = f"stopped: {e}"
                    return
                pause = e.wait
            except WentBack as e:
                print(f"{self.device}: the server went back: {e}", file=sys.stderr, flush=True)
                self.went_back.append(str(e))
                self.forget()
                pause = 0.0
            self.state = "offline"
            if connection.synced:
                wait, attempt = self.wait, 0
            else:
                attempt += 1
            if pause is None:
                pause = random.uniform(wait / 2, wait)
                wait = min(2 * wait, self.max_wait)
            await asyncio.sleep(pause)

    async def write(self):
        """Composes while it was told to."""
        while True:
            conv, every = self.writing or (None, 0.02)
            if conv and len(self.outbox) < PENDING and self.convs.get(conv):
                self.composed += 1
                self.compose(conv, f"{self.device} {self.composed}")
            await asyncio.sleep(every)


class Connection:
    """One connection. What runs for it ends with it, so that no answer of an earlier one is taken for an answer of now."""

    def __init__(self, device):
        self.d, self.ws = device, None
        self.synced = False
        self.last_id = 0
        self.waiting = {}  # request id -> future of the answer's frame
        self.opened = {}  # request id -> what a send carries, to take its ack in the order of arrival
        self.to_sync = asyncio.Event()
        self.sends = self.send_bytes = 0
        self.room = asyncio.Condition()
        self.last_words = None

    async def run(self, url):
        try:
            async with connect(url, max_size=1 << 24, open_timeout=5, close_timeout=1, ping_interval=None, compression=None) as self.ws:
                await self.hello()
                async with asyncio.TaskGroup() as self.tasks:
                    for part in (self.read(), self.sync(), self.send()):
                        self.tasks.create_task(part)
        except* (OSError, WebSocketException) as group:
            failure = Ended(f"no connection: {group.exceptions[0]}")
        except* Ended as group:
            failure = first(group)
        except* WentBack as group:
            failure = first(group)
        raise failure

    async def hello(self):
        # No capabilities: a server then neither sends hints nor fills `newest` (P-2.6).
        await self.ws.send(json.dumps({"id": "1", "hello": {
            "versionMin": 1, "versionMax": 1, "token": self.d.token, "device": self.d.device, "client": "foreign-device/1"}}))
        self.last_id = 1
        async with asyncio.timeout(15):
            frame = await self.frame()
        if "error" in frame:
            raise Ended(f"hello: {frame['error'].get('code')}", self.after(frame["error"].get("retryAfterMs")), not frame["error"].get("retryable"))
        if "kick" in frame:
            raise self.kicked(frame["kick"])
        w = frame["welcome"]
        if self.d.history_id not in (None, w["historyId"]):
            self.d.forget()
        self.d.history_id, self.d.user, self.d.inbox = w["historyId"], w["user"], w["inbox"]
        self.window, self.limits = w["window"], w["limits"]
        self.quiet = w["heartbeatMs"] / 1000 * (w["heartbeatMisses"] + 1)
        self.requests = asyncio.Semaphore(self.limits["openRequests"])
        if w.get("gateways"):
            self.d.gateways = [g for g in map(websocket, w["gateways"]) if g]
        self.d.state = "greeted"
        for c in self.d.convs.values():
            c.repairing = None

    def kicked(self, kick):
        return Ended(f"kick: {kick.get('code')}", self.after(kick.get("reconnectAfterMs")), not kick.get("reconnect"))

    def after(self, ms):
        """Waits of a kick or error: that long, and a random part of as much again (P-3.5)."""
        return ms / 1000 * random.uniform(1, 2) if ms else None

    async def frame(self):
        """The next frame. Raises Ended when there is none."""
        try:
            async with asyncio.timeout(getattr(self, "quiet", 15)):
                return json.loads(await self.ws.recv())
        except TimeoutError:
            raise Ended("the server is silent") from None
        except WebSocketException:
            raise self.last_words or Ended(f"closed with {self.ws.close_code}", final=self.ws.close_code in FINAL_CLOSES) from None

    async def read(self):
        while True:
            frame = await self.frame()
            rid = frame.get("id")
            if "ack" in frame and rid in self.opened:
                m, ack = self.opened[rid], frame["ack"]
                self.entry({"conv": m["conv"], "seq": ack["seq"], "from": self.d.user, "clientMsgId": m["clientMsgId"], "timeMs": ack.get("timeMs"), "text": m["text"]})
            if rid in self.waiting:
                self.waiting.pop(rid).set_result(frame)
            elif "events" in frame:
                for m in frame["events"].get("messages", []):
                    if m["conv"] == self.d.inbox:
                        self.to_sync.set()
                    else:
                        if m["conv"] not in self.d.convs:
                            self.to_sync.set()
                        self.entry(m)
            elif "lagged" in frame:
                self.to_sync.set()
            elif "ping" in frame:
                await self.ws.send(json.dumps({"id": rid, "pong": {}} if rid else {"pong": {}}))
            elif "kick" in frame:
                self.last_words = self.kicked(frame["kick"])

    def entry(self, m):
        c = self.d.conversation(m["conv"])
        if c.entry(m):
            self.repair(c)

    async def ask(self, **body):
        """One request and its answer. Raises Refused."""
        self.last_id += 1
        rid = str(self.last_id)
        answer = self.waiting[rid] = asyncio.get_running_loop().create_future()
        if "send" in body:
            self.opened[rid] = body["send"]
        await self.ws.send(json.dumps({"id": rid, **body}))
        try:
            frame = await answer
        finally:
            self.opened.pop(rid, None)
        if "error" in frame:
            raise Refused(frame["error"])
        return frame

    async def request(self, **body):
        """A request that is no send: within openRequests, and again while the server says not now (P-9.2)."""
        pause = self.d.wait
        while True:
            async with self.requests:
                try:
                    return await self.ask(**body)
                except Refused as e:
                    if not e.error.get("retryable") or e.code == "damaged":
                        raise
                    wait = e.error.get("retryAfterMs", 0) / 1000 or random.uniform(pause / 2, pause)
            pause = min(2 * pause, self.d.max_wait)
            await asyncio.sleep(wait)

    # --- sync and history

    async def sync(self):
        self.to_sync.set()
        while True:
            await self.to_sync.wait()
            self.to_sync.clear()  # a lagged from now on needs another sync (P-6.4)
            more = True
            while more:
                more = await self.sync_page()
            for c in list(self.d.convs.values()):
                self.repair(c)
            self.d.syncs += 1
            self.synced, self.d.state = True, "live"
            self.d.outgoing.set()

    async def sync_page(self):
        had = {c.conv: c.have for c in self.d.convs.values()}
        self.d.sync_began = time.time()
        try:
            page = (await self.request(sync={"token": self.d.sync_token} if self.d.sync_token else {}))["sync"]
        except Refused as e:
            if e.code != "bad_token":
                raise Ended(f"sync: {e}", self.after(e.error.get("retryAfterMs"))) from None
            self.d.sync_token = None
            return True
        for state in page.get("convs", []):
            c = self.d.conversation(state["conv"])
            c.state = {**c.state, **state}
            c.trouble = "damaged" if state.get("damaged") else None
            head = number(state.get("head"))
            if not state.get("damaged") and not state.get("left") and head < had.get(c.conv, 0):
                raise WentBack(f"{c.conv} has the head {head}, and this device had {had[c.conv]}")
            c.head = max(c.head, head)
        self.d.sync_token = page.get("token", self.d.sync_token)
        return page.get("more", False)

    def repair(self, c):
        """Fills the gap of one conversation, one task at a time. It is waited for by look."""
        if c.have < c.head and (c.repairing is None or c.repairing.done()):
            c.repairing = self.tasks.create_task(self.fill(c))
        return c.repairing

    async def fill(self, c):
        while c.have < c.head:
            had = c.head
            try:
                page = (await self.request(history={"conv": c.conv, "after": str(c.have)}))["history"]
            except Refused as e:
                c.trouble = e.code  # the rest goes on; the next sync asks again
                if number(e.error.get("damagedTo")) > c.have:  # a hole until a repair, which changes the history id
                    c.have = number(e.error["damagedTo"])
                    c.advance()
                    continue
                if e.code == "damaged":
                    await asyncio.sleep(e.error.get("retryAfterMs", 60000) / 1000)
                    continue
                return
            if number(page.get("head")) < had:
                raise WentBack(f"{c.conv} has the head {page.get('head')}, and this device knew {had}")
            c.trouble = None
            c.page(page)

    # --- sending

    async def send(self):
        """One message at a time to each conversation keeps their order (P-4.3)."""
        busy = {}
        while True:
            await self.d.outgoing.wait()
            self.d.outgoing.clear()
            for m in self.d.outbox if self.synced else []:
                if m["conv"] not in busy or busy[m["conv"]].done():
                    busy[m["conv"]] = self.tasks.create_task(self.send_all(m["conv"]))

    async def send_all(self, conv):
        while m := next((m for m in self.d.outbox if m["conv"] == conv), None):
            await self.send_one(m)
            self.d.outbox.remove(m)

    async def send_one(self, m):
        pause = self.d.wait
        while True:
            if time.time() - m["composed"] > GIVE_UP:
                self.d.unknown.append(m["clientMsgId"])
                return
            if m["look"] and await self.look(m):
                return
            if m["after"] is None:
                m["after"] = self.d.conversation(m["conv"]).head
            doubted, m["tried"], m["doubt"] = m["doubt"], True, True
            frame = {"conv": m["conv"], "clientMsgId": m["clientMsgId"], "after": str(m["after"]), "text": m["text"]}
            try:
                async with self.within_window(len(json.dumps(frame)) + 64):
                    ack = (await self.ask(send=frame))["ack"]
                self.d.acked[m["clientMsgId"]] = number(ack["seq"])
                return
            except Refused as e:
                if e.error.get("settled"):
                    self.d.rejected[m["clientMsgId"]] = e.code
                    return
                if e.code == "after_ahead":  # under the same history id (P-4.7)
                    m["doubt"] = doubted
                    raise WentBack(f"{m['conv']} has the head {e.error.get('head')}, and after was {m['after']}") from None
                if e.code == "behind":
                    m["doubt"] = doubted
                    if doubted:
                        m["look"] = True
                        self.d.conversation(m["conv"]).head = max(self.d.conversation(m["conv"]).head, number(e.error.get("head")))
                    else:
                        m["after"] = number(e.error.get("head"))
                    continue
                if e.code == "too_old":
                    self.d.unknown.append(m["clientMsgId"])
                    return
                wait = e.error.get("retryAfterMs", 0) / 1000 or random.uniform(pause / 2, pause)
                pause = min(2 * pause, self.d.max_wait)
            await asyncio.sleep(wait)

    async def look(self, m):
        """Looks for a message that may be stored (P-6.6). Returns whether it is; else the next attempt begins where this one looked up to."""
        c = self.d.conversation(m["conv"])
        while c.have < c.head:
            task = self.repair(c)
            await asyncio.shield(task)
            if c.trouble:
                break  # it cannot be read: the send will say why
        for seq, known in c.messages.items():
            if (known.get("from"), known.get("clientMsgId")) == (self.d.user, m["clientMsgId"]):
                self.d.acked[m["clientMsgId"]] = seq
                return True
        m["look"], m["after"] = False, c.have
        return False

    def within_window(self, size):
        return Window(self, size)


class Window:
    """P-4.6: a send that is the only unanswered one is always within."""

    def __init__(self, connection, size):
        self.c, self.size = connection, size

    async def __aenter__(self):
        c = self.c
        async with c.room:
            await c.room.wait_for(lambda: not c.sends or (c.sends < c.window["sends"] and c.send_bytes + self.size <= c.window["bytes"]))
            c.sends, c.send_bytes = c.sends + 1, c.send_bytes + self.size

    async def __aexit__(self, *_):
        c = self.c
        async with c.room:
            c.sends, c.send_bytes = c.sends - 1, c.send_bytes - self.size
            c.room.notify_all()


def first(group):
    """The first exception of a group of groups."""
    while isinstance(group, ExceptionGroup):
        group = group.exceptions[0]
    return group


def websocket(address):
    """The WebSocket URL of a gateway (P-3.7), or None: this device speaks no TCP."""
    u = urlsplit(address)
    scheme = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}.get(u.scheme)
    return f"{scheme}://{u.netloc}/v1/ws" if scheme else None


async def main():
    lines = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    device = Device(json.loads(await lines.readline()))
    parts = [asyncio.create_task(device.run()), asyncio.create_task(device.write())]
    for part in parts:
        part.add_done_callback(crashed)
    while line := await lines.readline():
        command = json.loads(line)
        if command["do"] == "write":
            device.writing = (command["conv"], command.get("everyMs", 20) / 1000)
        elif command["do"] == "pause":
            device.writing = None
        elif command["do"] == "reconnect" and device.connection.ws:
            await device.connection.ws.close()
        answer = {"count": device.count, "show": device.show}.get(command["do"], dict)
        print(json.dumps(answer()), flush=True)
    for part in parts:
        part.cancel()


def crashed(task):
    """A bug of this program ends it, so that the test sees it."""
    if not task.cancelled() and task.exception():
        traceback.print_exception(task.exception())
        os._exit(1)


if __name__ == "__main__":
    asyncio.run(main())
