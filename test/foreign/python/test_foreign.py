"""A client this project did not write, on PyPI's websockets: each test names the clauses of proto/README.md it checks."""
import contextlib
import glob
import json
import os
import struct
import time
import unittest
import urllib.error
import urllib.request

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from petrel_client import TIMEOUT, Client, Ended, Refused, new_id
from raw import RawWebSocket, field, protobuf_hello, top_fields

URL = os.environ["PETREL_URL"]
HTTP = os.environ["PETREL_HTTP"]
ADMIN_KEY = os.environ["PETREL_ADMIN_KEY"]
VECTORS = os.path.join(os.path.dirname(__file__), "../../../proto/vectors")
with open(os.environ["PETREL_TOKENS"]) as f:
    TOKENS = json.load(f)


def known(client, peer):
    """The direct conversation with peer and its head, from a sync; ("", 0) if there is none."""
    convs, _ = client.sync()
    for c in convs.values():
        if c.get("peer") == peer:
            return c["conv"], int(c["head"])
    return "", 0


def admin(method, body, key=ADMIN_KEY):
    """One call of the operator's API (P-10.3): (HTTP status, JSON)."""
    request = urllib.request.Request(
        f"{HTTP}/petrel.v1.AdminService/{method}",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json", "authorization": f"Bearer {key}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as r:
            return r.status, json.load(r)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def listed(client, wanted):
    """Syncs until the conversation for which wanted is true is listed (P-6.3): its state."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        for c in client.sync()[0].values():
            if wanted(c):
                return c
    raise AssertionError("the sync does not list the conversation")


def setUpModule():
    """The tests count from the head of conversations that are there and listed."""
    alice = Client(URL, TOKENS["alice"])
    for peer in ("alice", "bob", "carol"):
        alice.send_text("first", user=peer)
        listed(alice, lambda c: c.get("peer") == peer)
        other = Client(URL, TOKENS[peer])
        listed(other, lambda c: c.get("peer") == "alice")
        other.close()
    alice.close()


class Case(unittest.TestCase):
    def client(self, user=None, **hello):
        c = Client(URL, TOKENS[user] if user else None, **hello)
        self.addCleanup(c.close)
        return c

    def refused(self, code, settled, request, *args, **kwargs):
        with self.assertRaises(Refused) as caught:
            request(*args, **kwargs)
        self.assertEqual(caught.exception.code, code)
        self.assertEqual(caught.exception.error.get("settled", False), settled)
        return caught.exception.error

    def ended(self, end, body, code, close):
        """The connection ended with a frame of this body and code, and the close code of the catalogue (P-1.6)."""
        self.assertIsNotNone(end.frame, f"no frame before the end, close {end.close}")
        self.assertIn(body, end.frame)
        self.assertEqual(end.frame[body]["code"], code)
        self.assertEqual((end.close, end.reason), (close, code))


class Talking(Case):
    def test_welcome_has_what_p_3_4_lists(self):
        w = self.client("alice").welcome
        self.assertEqual((w["version"], w["user"]), (1, "alice"))
        self.assertEqual((w["inbox"][0], len(w["inbox"])), ("i", 21))
        for key in ("session", "historyId", "server"):
            self.assertTrue(w[key], key)
        self.assertLess(abs(int(w["serverTimeMs"]) / 1000 - time.time()), 60)
        for value in (w["heartbeatMs"], w["heartbeatMisses"], w["window"]["sends"], w["window"]["bytes"],
                      w["limits"]["frameBytes"], w["limits"]["bodyBytes"], w["limits"]["historyMessages"]):
            self.assertGreater(value, 0)

    def test_the_history_id_stays_and_sessions_differ(self):
        a, b = self.client("alice").welcome, self.client("alice").welcome
        self.assertEqual(a["historyId"], b["historyId"])
        self.assertNotEqual(a["session"], b["session"])

    def test_messages_go_both_ways(self):
        """P-4.1, P-4.3, P-5.1, P-6.1"""
        alice, bob = self.client("alice"), self.client("bob")
        _, head = known(alice, "bob")
        known(bob, "alice")
        k = new_id()
        ack = alice.send_text("hello 海燕 \U0001f30a", k=k, after=head, user="bob")
        conv, seq = ack["conv"], int(ack["seq"])
        self.assertEqual((seq, conv[0], len(conv)), (head + 1, "d", 21))
        m = bob.wait_event(lambda m: m["conv"] == conv)
        self.assertEqual((int(m["seq"]), m["from"], m["clientMsgId"], m["text"], m["timeMs"]),
                         (seq, "alice", k, "hello 海燕 \U0001f30a", ack["timeMs"]))
        back = bob.send_text("hi", after=seq, conv=conv)
        self.assertEqual(int(back["seq"]), seq + 1)
        self.assertNotIn("conv", back, "the ack of a send by conv does not repeat it")
        m = alice.wait_event(lambda m: m["conv"] == conv)
        self.assertEqual((int(m["seq"]), m["from"], m["text"]), (seq + 1, "bob", "hi"))

    def test_the_other_device_of_the_sender_gets_the_event_and_the_sender_does_not(self):
        """P-6.1"""
        laptop, phone = self.client("alice", device="laptop"), self.client("alice", device="phone")
        _, head = known(laptop, "carol")
        known(phone, "carol")
        ack = laptop.send_text("from the laptop", after=head, user="carol")
        m = phone.wait_event(lambda m: m["conv"] == ack["conv"])
        self.assertEqual((m["seq"], m["from"]), (ack["seq"], "alice"))
        laptop.call(ping={})
        self.assertEqual(laptop.events, [])

    def test_data_and_type_come_back_as_sent(self):
        """P-4.2: bytes are base64; the server does not look into them."""
        alice, bob = self.client("alice"), self.client("bob")
        conv, head = known(alice, "bob")
        known(bob, "alice")
        body = {"user": "bob", "clientMsgId": new_id(), "after": str(head), "type": "application/x-sketch", "data": "AAH+/w=="}
        ack = alice.call(send=body)["ack"]
        m = bob.wait_event(lambda m: m["seq"] == ack["seq"])
        self.assertEqual((m["type"], m["data"]), ("application/x-sketch", "AAH+/w=="))
        self.assertNotIn("text", m)

    def test_plain_numbers_schema_names_and_unknown_keys_are_read(self):
        """P-1.4, P-2.7"""
        alice = self.client("alice")
        _, head = known(alice, "alice")
        alice.write(id=77, send={"user": "alice", "client_msg_id": new_id(), "after": head, "text": "note", "colour": {"r": 1}}, extra=[1])
        self.assertEqual(int(alice.answer("77")["ack"]["seq"]), head + 1)

    def test_pushes_begin_with_the_welcome(self):
        """P-3.6, P-6.1"""
        alice, bob = self.client("alice"), self.client("bob")
        ack = alice.send_text("pushed at once", user="bob")
        self.assertEqual(bob.wait_event(lambda m: True)["seq"], ack["seq"])

    def test_the_first_message_of_two_users_is_pushed_and_then_listed(self):
        """P-6.1, P-6.3, P-8.4, P-8.5"""
        status, made = admin("CreateUsers", {"users": ["dora-" + new_id()[:8], "emil-" + new_id()[:8]]})
        self.assertEqual(status, 200, made)
        dora, emil = (Client(URL, t["token"]) for t in made["tokens"])
        names = [t["user"] for t in made["tokens"]]
        self.addCleanup(dora.close)
        self.addCleanup(emil.close)
        ack = dora.send_text("the first", after=0, user=names[1])
        self.assertEqual(ack["seq"], "1")
        m = emil.wait_event(lambda m: m["conv"] == ack["conv"])
        self.assertEqual((m["seq"], m["from"]), ("1", names[0]))
        for c, peer in ((dora, names[1]), (emil, names[0])):
            inbox = c.welcome["inbox"]
            joined = c.wait_event(lambda m: m["conv"] == inbox)["inbox"]["joined"]
            self.assertEqual((joined["conv"], joined["peer"], joined["kind"]), (ack["conv"], peer, "CONV_KIND_DIRECT"))
            state = c.sync()[0][ack["conv"]]
            self.assertEqual((state["peer"], state["head"], state["joined"]), (peer, "1", "1"))


class SentTwice(Case):
    def test_a_resend_gets_the_same_seq(self):
        """P-4.4, on the same and on another connection, pushed once"""
        alice, bob = self.client("alice"), self.client("bob")
        _, head = known(alice, "bob")
        known(bob, "alice")
        k = new_id()
        first = alice.send_text("once", k=k, after=head, user="bob")
        self.assertEqual(alice.send_text("once", k=k, after=head, user="bob")["seq"], first["seq"])
        again = self.client("alice")
        self.assertEqual(again.send_text("once", k=k, after=head, user="bob")["seq"], first["seq"])
        last = alice.send_text("next", after=int(first["seq"]), conv=first["conv"])
        self.assertEqual(int(last["seq"]), int(first["seq"]) + 1)
        bob.wait_event(lambda m: m["seq"] == first["seq"])
        self.assertEqual(bob.wait_event(lambda m: True)["seq"], last["seq"])

    def test_a_resend_without_after_gets_the_same_seq(self):
        """P-4.7"""
        k = new_id()
        first = self.client("alice").send_text("script", k=k, user="bob")
        self.assertEqual(self.client("alice").send_text("script", k=k, user="bob"), first)

    def test_a_client_that_died_before_the_answer_resends_what_it_stored(self):
        """P-4.8, P-4.9: the outcome was unknown, and is settled by the same message"""
        alice = self.client("alice")
        _, head = known(alice, "bob")
        stored = json.dumps({"user": "bob", "clientMsgId": new_id(), "after": str(head), "text": "is it stored?"})
        alice.begin(send=json.loads(stored))
        alice.ws.socket.close()
        again = self.client("alice")
        ack = again.call(send=json.loads(stored))["ack"]
        self.assertEqual(again.call(send=json.loads(stored))["ack"], ack)
        page = again.history(ack["conv"], after=str(head))
        self.assertEqual([(m["seq"], m["text"]) for m in page["messages"]], [(ack["seq"], "is it stored?")])

    def test_two_attempts_at_once_are_one_message(self):
        """P-4.4: the second attempt overtakes the first's answer."""
        alice, other = self.client("alice"), self.client("alice")
        _, head = known(alice, "carol")
        body = {"user": "carol", "clientMsgId": new_id(), "after": str(head), "text": "twice"}
        a, b = alice.begin(send=body), other.begin(send=body)
        self.assertEqual(alice.answer(a)["ack"]["seq"], other.answer(b)["ack"]["seq"])

    def test_the_same_id_with_another_body_is_a_conflict(self):
        alice = self.client("alice")
        _, head = known(alice, "bob")
        k = new_id()
        ack = alice.send_text("first", k=k, after=head, user="bob")
        self.refused("conflict", True, alice.send_text, "second", k=k, after=head, user="bob")
        page = alice.history(ack["conv"], after=str(head))
        self.assertEqual([m["text"] for m in page["messages"]], ["first"])

    def test_the_same_id_of_another_user_is_another_message(self):
        alice, bob = self.client("alice"), self.client("bob")
        conv, head = known(alice, "bob")
        k = new_id()
        a = alice.send_text("mine", k=k, after=head, user="bob")
        b = bob.send_text("mine", k=k, after=head, user="alice")
        self.assertEqual((b["conv"], int(b["seq"])), (a["conv"], int(a["seq"]) + 1))

    def test_after_above_the_head_is_answered_with_the_head(self):
        """P-4.7"""
        alice = self.client("alice")
        _, head = known(alice, "bob")
        error = self.refused("after_ahead", False, alice.send_text, "x", after=head + 1000, user="bob")
        self.assertEqual(int(error.get("head", "0")), head)


class History(Case):
    def setUp(self):
        self.alice = self.client("alice")
        _, self.base = known(self.alice, "carol")
        for i in range(12):
            ack = self.alice.send_text(f"line {i}", after=self.base + i, user="carol")
            self.conv = ack["conv"]
        self.head = int(ack["seq"])

    def test_pages_upwards_have_no_hole(self):
        """P-5.2"""
        after, texts, pages = self.base, [], 0
        while True:
            page = self.alice.history(self.conv, after=str(after), limit=5)
            self.assertEqual(int(page["head"]), self.head)
            for m in page["messages"]:
                after += 1
                self.assertEqual(int(m["seq"]), after)
                texts.append(m["text"])
            pages += 1
            if not page.get("more"):
                break
        self.assertEqual(texts, [f"line {i}" for i in range(12)])
        self.assertGreaterEqual(pages, 3)

    def test_pages_downwards_are_ascending(self):
        before, seqs = "18446744073709551615", []
        while not seqs or seqs[0] > self.base + 1:
            page = self.alice.history(self.conv, after=str(self.base), before=str(before), limit=5)
            got = [int(m["seq"]) for m in page["messages"]]
            self.assertEqual(got, sorted(got))
            self.assertEqual(page.get("more", False), got[0] > self.base + 1)
            seqs, before = got + seqs, got[0]
        self.assertEqual(seqs, list(range(self.base + 1, self.head + 1)))

    def test_a_page_above_the_head_is_empty(self):
        for after in (self.head, self.head + 1, 2**64 - 1):
            with self.subTest(after=after):
                page = self.alice.history(self.conv, after=str(after))
                self.assertEqual(page.get("messages", []), [])
                self.assertFalse(page.get("more", False))

    def test_the_other_member_reads_the_same(self):
        mine = self.alice.history(self.conv, after=str(self.base))["messages"]
        self.assertEqual(self.client("carol").history(self.conv, after=str(self.base))["messages"], mine)

    def test_a_outsider_reads_nothing(self):
        self.refused("no_conversation", True, self.client("eve").history, self.conv)


class AwayAndBack(Case):
    def test_what_came_while_away_is_found_by_sync_and_history(self):
        """P-6.2, P-6.7"""
        bob = self.client("bob")
        _, have = known(bob, "alice")
        convs, token = bob.sync()
        bob.close()
        alice = self.client("alice")
        _, head = known(alice, "bob")
        for i in range(15):
            ack = alice.send_text(f"away {i}", after=head + i, user="bob")
        bob = self.client("bob")
        convs, newer = bob.sync(token)
        state = convs[ack["conv"]]
        self.assertEqual((state["head"], state["peer"], state["kind"]), (ack["seq"], "alice", "CONV_KIND_DIRECT"))
        got = []
        while have < int(state["head"]):
            page = bob.history(ack["conv"], after=str(have), limit=4)
            got += [m["text"] for m in page["messages"]]
            have = int(page["messages"][-1]["seq"])
        self.assertEqual(got, [f"away {i}" for i in range(15)])
        self.assertNotEqual(newer, token)
        live = alice.send_text("back", after=int(ack["seq"]), user="bob")
        self.assertEqual(bob.wait_event(lambda m: m["conv"] == ack["conv"])["seq"], live["seq"])

    def test_what_did_not_change_is_not_listed(self):
        alice = self.client("alice")
        quiet = alice.send_text("quiet", user="carol")["conv"]
        _, token = alice.sync()
        moved = alice.send_text("moved", user="bob")["conv"]
        convs, _ = alice.sync(token)
        self.assertIn(moved, convs)
        self.assertNotIn(quiet, convs)

    def test_a_foreign_sync_token_is_refused(self):
        """P-6.2"""
        alice = self.client("alice")
        self.refused("bad_token", False, alice.sync, "bm90IGEgdG9rZW4=")
        alice.sync()


class Groups(Case):
    def make(self, *users):
        status, made = admin("CreateGroup", {"title": "birds", "members": [{"user": u} for u in users]})
        self.assertEqual(status, 200, made)
        return made["conv"]

    def test_members_of_a_group_get_every_message_once_in_order(self):
        conv = self.make("alice", "bob", "carol")
        clients = [self.client(u) for u in ("alice", "bob", "carol")]
        heads = [int(listed(c, lambda s: s["conv"] == conv)["head"]) for c in clients]
        self.assertEqual(len(set(heads)), 1)
        acks = [c.send_text(f"from {i}", after=heads[0], conv=conv) for i, c in enumerate(clients)]
        self.assertEqual([int(a["seq"]) for a in acks], [heads[0] + 1 + i for i in range(3)])
        for i, c in enumerate(clients):
            want = [a["seq"] for j, a in enumerate(acks) if j != i]
            got = [c.wait_event(lambda m: m["conv"] == conv)["seq"] for _ in want]
            self.assertEqual(got, want)

    def test_who_is_not_a_member_can_neither_send_nor_read(self):
        """P-4.5, P-8.3"""
        conv, eve = self.make("alice", "bob"), self.client("eve")
        self.refused("no_conversation", True, eve.send_text, "let me in", after=0, conv=conv)
        self.refused("no_conversation", True, eve.history, conv)
        self.assertNotIn(conv, eve.sync()[0])

    def test_a_new_member_is_told_and_a_removed_one_gets_nothing_more(self):
        """P-8.2, P-8.3, and P-4.4 for a resend by the removed one"""
        conv, alice, eve = self.make("alice", "bob"), self.client("alice"), self.client("eve")
        head = int(listed(alice, lambda s: s["conv"] == conv)["head"])
        eve.sync()
        before = alice.send_text("before eve", after=head, conv=conv)
        status, added = admin("ChangeMembers", {"conv": conv, "change": {"added": [{"user": "eve"}]}})
        self.assertEqual(status, 200, added)
        m = eve.wait_event(lambda m: m["conv"] == conv)
        self.assertEqual((m["seq"], m["members"]["added"][0]["user"]), (added["seq"], "eve"))
        k = new_id()
        mine = eve.send_text("hello", k=k, after=int(added["seq"]), conv=conv)
        page = eve.history(conv)
        self.assertEqual([m["seq"] for m in page["messages"]], [added["seq"], mine["seq"]], "the past before the stay is not readable")
        self.assertEqual(int(before["seq"]), int(added["seq"]) - 1)
        status, removed = admin("ChangeMembers", {"conv": conv, "change": {"removed": ["eve"]}})
        self.assertEqual(status, 200, removed)
        self.assertEqual(eve.wait_event(lambda m: m["conv"] == conv)["members"]["removed"], ["eve"])
        after = alice.send_text("after eve", after=int(removed["seq"]), conv=conv)
        eve.call(ping={})
        self.assertEqual([m for m in eve.events if m["conv"] == conv], [])
        page = eve.history(conv)
        self.assertEqual([m["seq"] for m in page["messages"]], [added["seq"], mine["seq"], removed["seq"]])
        self.assertEqual(page["head"], removed["seq"])
        state = eve.sync()[0][conv]
        self.assertEqual((state["left"], state["head"]), (True, removed["seq"]))
        self.assertEqual(state["counted"], page["messages"][-1]["counted"], "what came after the stay is not told by its count either")
        self.refused("not_member", True, eve.send_text, "again", after=int(removed["seq"]), conv=conv)
        self.assertEqual(eve.send_text("hello", k=k, after=int(added["seq"]), conv=conv)["seq"], mine["seq"])
        self.assertEqual(int(after["seq"]), int(removed["seq"]) + 1)

    def test_a_member_of_two_stays_pages_over_what_lies_between(self):
        """P-5.2, P-8.3: a page with more has a message, so the client can go on from it"""
        conv, alice, eve = self.make("alice"), self.client("alice"), self.client("eve")

        def change(**what):
            status, made = admin("ChangeMembers", {"conv": conv, "change": what})
            self.assertEqual(status, 200, made)
            return int(made["seq"])

        def say(n):
            return [int(alice.send_text("x", conv=conv)["seq"]) for _ in range(n)]

        say(5)
        mine = [change(added=[{"user": "eve"}]), *say(2), change(removed=["eve"])]
        say(7)
        mine += [change(added=[{"user": "eve"}]), *say(2)]
        for limit in (1, 3, 4, 200):
            with self.subTest(limit=limit):
                up, after, more = [], 0, True
                while more:
                    page = eve.history(conv, after=str(after), limit=limit)
                    up += [int(m["seq"]) for m in page["messages"]]
                    after, more = up[-1], page.get("more", False)
                self.assertEqual(up, mine)
                down, before, more = [], mine[-1] + 1, True
                while more:
                    page = eve.history(conv, before=str(before), limit=limit)
                    down = [int(m["seq"]) for m in page["messages"]] + down
                    before, more = down[0], page.get("more", False)
                self.assertEqual(down, mine)
        state = listed(eve, lambda s: s["conv"] == conv)
        self.assertEqual((int(state["joined"]), int(state["head"]), state.get("left", False)), (mine[0], mine[-1], False))

    def test_an_empty_or_wrong_admin_key_is_refused(self):
        """P-10.2, P-12.5"""
        status, error = admin("GetUser", {"user": "alice"}, key="pk_wrong")
        self.assertEqual(status, 401, error)
        self.assertEqual((error["code"], error["petrelCode"], error["docs"]), ("unauthenticated", "unauthenticated", "/docs#error-unauthenticated"))
        status, error = admin("GetUser", {"user": "nobody-" + new_id()[:8]})
        self.assertEqual((status, error["code"], error["petrelCode"]), (404, "not_found", "no_user"))


class Refusals(Case):
    def test_each_wrong_target_has_its_code(self):
        """P-4.1, P-4.2, P-4.5"""
        alice = self.client("alice")
        text = {"clientMsgId": new_id(), "after": "0", "text": "x"}
        for code, send in (
            ("no_user", {**text, "user": "nobody-of-that-name"}),
            ("no_conversation", {**text, "conv": "gAAAAAAAAAAAAAAAAAAAA"}),
            ("no_conversation", {**text, "conv": "not an id"}),
            ("invalid", text),
            ("invalid", {**text, "user": "bob", "conv": "gAAAAAAAAAAAAAAAAAAAA"}),
            ("invalid", {**text, "user": "bob", "clientMsgId": ""}),
            ("invalid", {**text, "user": "bob", "clientMsgId": "k" * 65}),
            ("invalid", {**text, "user": "bob", "type": "t" * 65}),
            ("invalid", {"user": "bob", "clientMsgId": new_id(), "after": "0"}),
            ("too_large", {**text, "user": "bob", "text": "x" * (alice.welcome["limits"]["bodyBytes"] + 1)}),
            ("forbidden", {**text, "conv": alice.welcome["inbox"]}),
        ):
            with self.subTest(code=code, send=str(send)[:80]):
                self.refused(code, True, alice.call, send=send)

    def test_the_largest_body_is_taken(self):
        alice = self.client("alice")
        alice.send_text("x" * alice.welcome["limits"]["bodyBytes"], user="bob")

    def test_what_the_welcome_offers_is_served(self):
        """P-2.6, P-5.3, P-6.2, P-8.6, P-10.4"""
        alice = self.client("alice")
        self.assertEqual(set(alice.welcome["capabilities"]), {"edit", "cursor", "focus", "newest", "call", "rel", "signal", "presence", "notes", "personal", "mentions", "large", "profiles"})
        sent = alice.send_text("target", user="bob")
        conv, target = sent["conv"], sent["seq"]
        answer = alice.call(call={"method": "petrel.v1.MessageService/React", "json": json.dumps({"conv": conv, "seq": target, "emoji": "👍"})})["answer"]
        self.assertEqual(json.loads(answer["json"])["note"]["reactions"], [{"emoji": "👍", "count": "1", "mine": True}])
        for body in ({"edit": {"target": target, "text": "x"}}, {"recall": {"target": target}}):
            with self.subTest(body=body):
                self.assertIn("ack", alice.call(send={"conv": conv, "clientMsgId": new_id(), **body}))
        self.assertEqual(alice.call(cursor={"conv": conv, "read": target})["cursor"]["read"], target)
        page = alice.call(sync={"newest": 1})["sync"]
        self.assertEqual(len([c for c in page["convs"] if c["conv"] == conv][0]["newest"]), 1)
        answer = alice.call(call={"method": "petrel.v1.AccountService/GetAccount", "json": "{}"})["answer"]
        self.assertEqual(json.loads(answer["json"])["user"], "alice")
        # this client lists no capability in its hello
        self.refused("unsupported", True, alice.call, focus={"all": True})
        self.refused("unsupported", True, alice.call, signal={"user": "bob", "kind": "x"})
        self.refused("unsupported", True, alice.call, watch={"users": ["bob"]})
        self.refused("no_method", False, alice.call, call={"method": "petrel.v1.AdminService/GetStats", "json": "{}"})


class Ends(Case):
    def answered(self, v, protobuf, ws):
        """P-2.3: the frame is answered with a settled error, and the connection stays."""
        if protobuf:
            frame = dict(top_fields(ws.recv()[1]))
            error = dict(top_fields(frame[4]))
            self.assertEqual((frame[1], error[1].decode(), error[3]), (int(v["answer"]), v["code"], 1))
            ws.send(bytes.fromhex("08074200"), opcode=2)
            self.assertEqual(ws.recv()[1], bytes.fromhex("08075a00"))
            return
        frame = json.loads(ws.recv()[1])
        self.assertEqual((frame["id"], frame["error"]["code"], frame["error"]["settled"]), (v["answer"], v["code"], True))
        ws.send(b'{"id":"7","ping":{}}')
        self.assertEqual(json.loads(ws.recv()[1]), {"id": "7", "pong": {}})

    def test_bad_frames_of_the_vectors_end_as_they_say(self):
        for name in sorted(glob.glob(os.path.join(VECTORS, "bad-*.txt"))):
            with open(name, encoding="utf-8") as f:
                v = dict(line.rstrip("\n").split(": ", 1) for line in f)
            if v["on"] == "tcp":
                continue  # test/foreign/tcp plays these
            content = bytes.fromhex(v["hex"]) if "hex" in v else v["text"].encode()
            with self.subTest(os.path.basename(name)), contextlib.closing(RawWebSocket(URL)) as ws:
                protobuf = v["where"] == "protobuf session"
                if protobuf:
                    ws.send(protobuf_hello(TOKENS["alice"]), opcode=2)
                    self.assertEqual([n for n, _ in top_fields(ws.recv()[1])], [1, 2], "a welcome with the id of the hello")
                elif v["where"] == "json session":
                    ws.send(json.dumps({"id": "1", "hello": {"versionMin": 1, "versionMax": 1, "token": TOKENS["alice"]}}).encode())
                    self.assertIn("welcome", json.loads(ws.recv()[1]))
                if v["on"] == "ws-raw":
                    ws.sock.sendall(content)
                else:
                    ws.send(content, opcode=2 if v["on"] == "ws-binary" else 1)
                if "answer" in v:
                    self.answered(v, protobuf, ws)
                    ws.close()  # a user has at most 10 connections
                    continue
                last, close, reason = ws.end()
                self.assertEqual((close, reason), (int(v["close"]), v["code"]))
                if protobuf:
                    kick = dict(top_fields(last))[13]
                    self.assertEqual(dict(top_fields(kick))[1].decode(), v["code"])
                else:
                    body = "error" if v["code"] in ("version_unsupported", "unauthenticated") else "kick"
                    self.assertEqual(last[body]["code"], v["code"])

    def test_a_range_above_and_an_empty_range_are_version_unsupported(self):
        """P-3.2: judged before the token"""
        for hello in ({"versionMin": 2, "versionMax": 3}, {"versionMin": 1, "versionMax": 0}, {}):
            with self.subTest(hello):
                c = self.client()
                c.write(id="1", hello={**hello, "token": "wrong"})
                end = c.wait_end()
                self.ended(end, "error", "version_unsupported", 4406)
                self.assertEqual(end.frame["id"], "1")

    def test_a_range_that_contains_version_1_is_fine(self):
        self.assertEqual(self.client("alice", versionMin=0, versionMax=9).welcome["version"], 1)

    def test_wrong_tokens_are_unauthenticated(self):
        """P-3.3"""
        changed = TOKENS["alice"][:-1] + ("A" if TOKENS["alice"][-1] != "A" else "B")
        for token in ("", "nonsense", changed, TOKENS["alice"].replace("alice", "bob"), ADMIN_KEY):
            with self.subTest(token=token[:6]):
                c = self.client()
                c.write(id="5", hello={"versionMin": 1, "versionMax": 1, "token": token})
                end = c.wait_end()
                self.ended(end, "error", "unauthenticated", 4401)
                self.assertEqual(end.frame["id"], "5")

    def test_a_token_in_the_url_is_refused_even_if_it_is_right(self):
        """P-3.3"""
        for query in (f"?token={TOKENS['alice']}", f"?access_token={TOKENS['alice']}", f"?t={TOKENS['alice']}", "?token=x"):
            with self.subTest(query[:14]):
                with self.assertRaises(InvalidStatus) as caught:
                    connect(URL + query)
                response = caught.exception.response
                self.assertEqual(response.status_code, 400)
                self.assertEqual(json.loads(response.body)["code"], "token_in_url")

    def test_frames_over_the_limit_are_too_large(self):
        """P-2.5, after the welcome and before it"""
        c = self.client("alice")
        limit = c.welcome["limits"]["frameBytes"]
        c.ws.send('{"id":"9","ping":{}}'.ljust(limit))
        self.assertIn("pong", c.answer("9"))
        c.ws.send('{"id":"10","ping":{}}'.ljust(limit + 1))
        self.ended(c.wait_end(), "kick", "frame_too_large", 1009)
        c = self.client()
        c.ws.send('{"id":"1","hello":{}}'.ljust(8192))
        self.ended(c.wait_end(), "kick", "frame_too_large", 1009)

    def test_an_announced_length_over_the_limit_is_judged_at_once(self):
        """P-2.5: the content never comes."""
        ws = RawWebSocket(URL)
        self.addCleanup(ws.close)
        ws.sock.sendall(b"\x81\xff" + struct.pack(">Q", 1 << 40) + b"mask")
        last, close, reason = ws.end()
        self.assertEqual((last["kick"]["code"], close, reason), ("frame_too_large", 1009, "frame_too_large"))

    def test_broken_websocket_framing_ends_with_1002(self):
        """P-1.5: a reserved bit, an unknown opcode, a ping that is too long"""
        for first, opcode, content in ((0xC0, 1, b"{}"), (0x80, 3, b"{}"), (0x80, 9, b"x" * 126)):
            with self.subTest(first=first, opcode=opcode):
                ws = RawWebSocket(URL)
                self.addCleanup(ws.close)
                ws.send(content, opcode, first)
                last, close, _ = ws.end()
                self.assertEqual((last["kick"]["code"], close), ("bad_frame", 1002))

    def test_a_fragmented_message_is_one_frame_and_websocket_pings_are_answered(self):
        """P-1.5"""
        ws = RawWebSocket(URL)
        self.addCleanup(ws.close)
        hello = json.dumps({"id": "1", "hello": {"versionMin": 1, "versionMax": 1, "token": TOKENS["alice"]}}).encode()
        ws.send(hello[:20], 1, 0)
        ws.send(b"are you there", 9)
        ws.send(hello[20:40], 0, 0)
        ws.send(hello[40:], 0)
        self.assertEqual(ws.recv(), (10, b"are you there"))
        self.assertIn("welcome", json.loads(ws.recv()[1]))

    def test_a_protobuf_session_works(self):
        """P-1.2, P-1.3: send to oneself by the field numbers of the schema"""
        ws = RawWebSocket(URL)
        self.addCleanup(ws.close)
        ws.send(protobuf_hello(TOKENS["eve"]), opcode=2)
        opcode, content = ws.recv()
        self.assertEqual((opcode, [n for n, _ in top_fields(content)]), (2, [1, 2]))
        k = new_id()
        send = field(2, "eve") + field(3, k) + field(6, "note to self")
        for _ in range(2):
            ws.send(field(1, 7) + field(3, send), opcode=2)
        seqs = []
        while len(seqs) < 2:
            frame = dict(top_fields(ws.recv()[1]))
            if frame.get(1) == 7:  # what has no id was pushed
                seqs.append(dict(top_fields(frame[3]))[2])
        self.assertEqual(seqs[0], seqs[1])

    def test_revoked_tokens_end_the_session(self):
        """P-3.5, P-10.3"""
        status, made = admin("CreateUsers", {"users": ["mallory"]})
        self.assertEqual(status, 200, made)
        c = Client(URL, made["tokens"][0]["token"])
        self.addCleanup(c.close)
        status, revoked = admin("RevokeTokens", {"user": "mallory"})
        self.assertEqual((status, revoked.get("sessions")), (200, 1))
        end = c.wait_end()
        self.ended(end, "kick", "revoked", 4403)
        self.assertFalse(end.frame["kick"].get("reconnect", False))
        again = self.client()
        again.write(id="1", hello={"versionMin": 1, "versionMax": 1, "token": made["tokens"][0]["token"]})
        self.ended(again.wait_end(), "error", "unauthenticated", 4401)


class Heartbeat(Case):
    def test_a_ping_is_answered_with_its_id(self):
        """P-7.3"""
        self.assertIn("pong", self.client("alice").call(ping={}))

    def test_silence_is_probed_and_a_pong_keeps_the_link(self):
        """P-7.1, P-7.2: for longer than a dead link lives"""
        c = self.client("alice")
        silence = c.welcome["heartbeatMs"] / 1000
        if silence > 10:
            self.fail(f"start the server with a heartbeat of a few seconds; it says {silence} s")
        while c.pings < c.welcome["heartbeatMisses"] + 3:
            c.read(time.monotonic() + TIMEOUT)
        c.call(ping={})

    def test_a_link_that_does_not_answer_is_dead_after_the_announced_time(self):
        """P-7.2"""
        ws = RawWebSocket(URL)
        self.addCleanup(ws.close)
        start = time.monotonic()
        ws.send(json.dumps({"id": "1", "hello": {"versionMin": 1, "versionMax": 1, "token": TOKENS["alice"]}}).encode())
        w = json.loads(ws.recv()[1])["welcome"]
        last, close, _ = ws.end()
        took = time.monotonic() - start
        self.assertEqual((last["kick"]["code"], last["kick"]["reconnect"], close), ("dead_link", True, 4410))
        want = w["heartbeatMs"] / 1000 * (w["heartbeatMisses"] + 1)
        self.assertGreater(took, want * 0.8)
        if "PETREL_TIMES" in os.environ:
            self.assertLess(took, want * 1.5 + 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
