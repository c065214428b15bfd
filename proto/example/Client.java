import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.net.http.WebSocketHandshakeException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import org.json.JSONArray;
import org.json.JSONObject;

/** The client of proto/README.md ("A client in 200 lines") in Java 17. The text there explains it; the names are the same. */
public class Client {
    static final String UNKNOWN = "unknown for ever"; // the fate of a message, beside the codes of errors: P-4.8

    /** The error that answered a request. */
    static class Refused extends Exception {
        final JSONObject error;

        Refused(JSONObject error) {
            super(error.getString("code"));
            this.error = error;
        }
    }

    /** The connection has ended. */
    static class Ended extends RuntimeException {}

    final URI url;
    final String token;
    final JSONObject store; // what survives a restart: historyId, token, convs, outgoing, failed
    final Runnable save; // writes the store
    final Consumer<JSONObject> show; // shows an entry: each once, those of a conversation in order
    final HttpClient http = HttpClient.newHttpClient();

    // The monitor of the client guards the store and the fields of the session.

    Client(URI url, String token, JSONObject store, Runnable save, Consumer<JSONObject> show) {
        this.url = url;
        this.token = token;
        this.store = store;
        this.save = save;
        this.show = show;
    }

    static JSONObject emptyStore() {
        return new JSONObject().put("historyId", "").put("token", "").put("convs", new JSONObject()).put("outgoing", new JSONArray()).put("failed", new JSONArray());
    }

    /** Connects again and again, and returns the error after which a client must not do so by itself. */
    JSONObject run() throws InterruptedException {
        for (int tries = 0;; tries++) {
            var session = new Session();
            session.run();
            if (session.welcome != null) tries = 0;
            var end = session.end == null ? new JSONObject() : session.end;
            if (!end.isEmpty() && !end.optBoolean("reconnect") && !end.optBoolean("retryable")) return end;
            Thread.sleep(pause(tries, end.optLong("reconnectAfterMs", end.optLong("retryAfterMs"))));
        }
    }

    /** Milliseconds until the next attempt: not before ms, if the server said so (P-3.5, P-9.2), or as P-3.6 says. */
    static long pause(int tries, long ms) {
        var random = ThreadLocalRandom.current();
        return (long) (ms > 0 ? ms * random.nextDouble(1, 2) : 1000 * Math.min(30, Math.pow(2, tries)) * random.nextDouble(0.5, 1));
    }

    synchronized void compose(String kind, String to, String text) {
        var m = new JSONObject().put("id", UUID.randomUUID().toString()).put("kind", kind).put("to", to).put("text", text);
        m.put("after", head(known(kind, to))).put("unsure", false).put("composedMs", System.currentTimeMillis());
        store.getJSONArray("outgoing").put(m);
        save.run();
        notifyAll();
    }

    /** The conversation of a target, or null if there is none yet. */
    synchronized String known(String kind, String to) {
        var convs = store.getJSONObject("convs");
        for (var conv : convs.keySet()) {
            if (to.equals(kind.equals("conv") ? conv : convs.getJSONObject(conv).optString("peer"))) return conv;
        }
        return null;
    }

    synchronized void set(JSONObject o, String key, Object value) {
        o.put(key, value);
        save.run();
    }

    synchronized long head(String conv) {
        return conv == null ? 0 : store.getJSONObject("convs").getJSONObject(conv).getLong("head");
    }

    boolean outgoing(JSONObject m) {
        for (var o : store.getJSONArray("outgoing")) {
            if (o == m) return true;
        }
        return false;
    }

    boolean remove(String list, String id) {
        var messages = store.getJSONArray(list);
        for (int i = 0; i < messages.length(); i++) {
            if (messages.getJSONObject(i).getString("id").equals(id)) return messages.remove(i) != null;
        }
        return false;
    }

    /** Tells the person, unless an entry has settled the message meanwhile. */
    synchronized void fail(JSONObject m, String why) {
        if (remove("outgoing", m.getString("id"))) store.getJSONArray("failed").put(m.put("why", why));
        save.run();
    }

    /** Keeps what is still to be sent: P-3.4, P-6.6. */
    synchronized void forget(String historyId) {
        for (var m : store.getJSONArray("outgoing")) ((JSONObject) m).remove("after");
        store.put("historyId", historyId).put("token", "").put("convs", new JSONObject());
        save.run();
    }

    /** One connection, from the hello to its end. */
    class Session implements WebSocket.Listener {
        JSONObject welcome, end; // end: the kick, or the error that answered the hello
        private WebSocket socket;
        private boolean ended, stale, changed;
        private final Set<String> unreadable = new HashSet<>(), pumps = new HashSet<>();
        private final List<Thread> threads = new ArrayList<>();
        private final ReentrantLock turn = new ReentrantLock();
        private CompletableFuture<JSONObject> answer = new CompletableFuture<>();
        private final StringBuilder text = new StringBuilder();
        private long heard = System.nanoTime(), silenceMs = 10_000;

        void run() throws InterruptedException {
            try {
                socket = http.newWebSocketBuilder().connectTimeout(Duration.ofSeconds(10)).buildAsync(url, this).get(10, TimeUnit.SECONDS);
                live();
            } catch (Refused e) {
                if (welcome == null) end = e.error;
            } catch (ExecutionException e) {
                // P-9.1. This library does not give the body, which has the error.
                if (e.getCause() instanceof WebSocketHandshakeException h && (h.getResponse().statusCode() == 400 || h.getResponse().statusCode() == 403)) {
                    end = new JSONObject().put("code", "refused").put("message", "HTTP " + h.getResponse().statusCode());
                }
            } catch (TimeoutException | Ended e) {
                // Lost.
            } finally {
                ended();
                if (socket != null) socket.abort();
                for (var t : threads) t.join();
            }
        }

        private void live() throws Refused, InterruptedException {
            var hello = new JSONObject().put("versionMin", 1).put("versionMax", 1).put("token", token).put("client", "sketch-java/1");
            ask("hello", hello);
            sync();
            start(this::catchUp);
            synchronized (Client.this) {
                while (!ended && !silent()) {
                    // The targets are beside each other; the messages of one are sent one by one (P-4.3).
                    for (var o : store.getJSONArray("outgoing")) {
                        var m = (JSONObject) o;
                        var target = m.getString("kind") + " " + m.getString("to");
                        if (pumps.add(target)) start(() -> pump(target));
                    }
                    Client.this.wait(1000);
                }
            }
        }

        interface Work {
            void run() throws Refused, InterruptedException;
        }

        private void start(Work work) {
            var t = new Thread(() -> {
                try {
                    work.run();
                } catch (Refused | InterruptedException | Ended e) {
                    ended(); // the next session goes on
                }
            });
            threads.add(t);
            t.start();
        }

        private void ended() {
            synchronized (Client.this) {
                ended = true;
                answer.completeExceptionally(new Ended());
                Client.this.notifyAll();
            }
        }

        // What the server sends.

        @Override
        public CompletionStage<?> onText(WebSocket socket, CharSequence part, boolean last) {
            text.append(part);
            if (last) {
                frame(new JSONObject(text.toString()));
                text.setLength(0);
            }
            socket.request(1);
            return null;
        }

        @Override
        public CompletionStage<?> onClose(WebSocket socket, int code, String reason) {
            ended();
            return null;
        }

        @Override
        public void onError(WebSocket socket, Throwable error) {
            ended();
        }

        private void frame(JSONObject f) {
            synchronized (Client.this) {
                heard = System.nanoTime();
                if (f.has("events")) {
                    for (var m : list(f.getJSONObject("events"), "messages")) entry(m);
                } else if (f.has("lagged")) {
                    stale = true;
                    changed();
                } else if (f.has("kick")) {
                    end = f.getJSONObject("kick");
                } else if (f.has("id") && !f.has("ping")) {
                    if (f.has("welcome")) welcomed(f.getJSONObject("welcome")); // before the first event
                    answer.complete(f);
                }
            }
            if (f.has("ping")) {
                f.put("pong", f.remove("ping"));
                write(f);
            }
        }

        private void welcomed(JSONObject w) {
            welcome = w;
            silenceMs = w.getLong("heartbeatMs") * (w.getLong("heartbeatMisses") + 1);
            if (!store.getString("historyId").equals(w.getString("historyId"))) forget(w.getString("historyId"));
        }

        /** Whether the link is dead: P-7.3. The library does not tell of each end of a connection. */
        private boolean silent() {
            synchronized (Client.this) {
                return System.nanoTime() - heard > silenceMs * 1_000_000;
            }
        }

        private void changed() {
            changed = true;
            Client.this.notifyAll();
        }

        // Requests.

        private synchronized void write(JSONObject frame) { // one at a time, as the library demands
            try {
                socket.sendText(frame.toString(), true).join();
            } catch (RuntimeException e) {
                ended();
            }
        }

        /** One request at a time is within every window (P-2.2, P-4.6). */
        JSONObject ask(String kind, JSONObject body) throws Refused, InterruptedException {
            turn.lockInterruptibly();
            try {
                synchronized (Client.this) {
                    if (ended) throw new Ended();
                    answer = new CompletableFuture<>();
                }
                write(new JSONObject().put("id", "1").put(kind, body));
                JSONObject frame = null;
                while (frame == null) {
                    try {
                        frame = answer.get(1, TimeUnit.SECONDS);
                    } catch (TimeoutException e) {
                        if (silent()) throw new Ended();
                    }
                }
                if (frame.has("error")) throw new Refused(frame.getJSONObject("error"));
                return frame;
            } catch (ExecutionException e) {
                throw new Ended();
            } finally {
                turn.unlock();
            }
        }

        /** For what reads. */
        private JSONObject insist(String kind, JSONObject body) throws Refused, InterruptedException {
            for (int tries = 0;; tries++) {
                try {
                    return ask(kind, body);
                } catch (Refused e) {
                    if (!e.error.optBoolean("retryable") || e.error.has("damagedTo")) throw e;
                    sleep(pause(tries, e.error.optLong("retryAfterMs")));
                }
            }
        }

        /** Sleeps for ms, or until the connection ends. */
        private void sleep(long ms) throws InterruptedException {
            long until = System.nanoTime() + ms * 1_000_000;
            synchronized (Client.this) {
                for (long left = ms; left > 0 && !ended; left = (until - System.nanoTime()) / 1_000_000) Client.this.wait(left);
                if (ended) throw new Ended();
            }
        }

        // Receiving: P-6.7. The inbox is no conversation here: what it says is in the sync (P-8.11).

        private void catchUp() throws Refused, InterruptedException {
            while (true) {
                boolean again;
                List<String> convs;
                synchronized (Client.this) {
                    changed = false;
                    again = stale;
                }
                if (again) sync();
                synchronized (Client.this) {
                    convs = List.copyOf(store.getJSONObject("convs").keySet());
                }
                for (var conv : convs) repair(conv);
                synchronized (Client.this) {
                    while (!changed && !ended) Client.this.wait();
                    if (ended) throw new Ended();
                }
            }
        }

        private void sync() throws Refused, InterruptedException {
            synchronized (Client.this) {
                stale = false; // a `lagged` or a new conversation meanwhile asks for another sync
                unreadable.clear();
            }
            for (boolean more = true; more;) {
                JSONObject had, page;
                String known;
                synchronized (Client.this) {
                    known = store.getString("token");
                    had = new JSONObject(store.getJSONObject("convs").toString());
                }
                try {
                    page = insist("sync", new JSONObject().put("token", known)).getJSONObject("sync");
                } catch (Refused e) { // bad_token
                    if (known.isEmpty()) throw e;
                    set(store, "token", "");
                    continue;
                }
                synchronized (Client.this) {
                    for (var p : list(page, "convs")) note(p, had);
                    store.put("token", page.getString("token")); // together with the heads: the next page does not list them again
                    more = page.optBoolean("more");
                    save.run();
                }
            }
        }

        private void note(JSONObject p, JSONObject had) {
            var conv = p.getString("conv");
            if (p.optBoolean("damaged") || conv.equals(welcome.getString("inbox"))) return;
            var convs = store.getJSONObject("convs");
            if (!convs.has(conv)) convs.put(conv, new JSONObject().put("have", p.optLong("joined", 1) - 1).put("head", 0).put("messages", new JSONObject()));
            var c = convs.getJSONObject(conv);
            c.put("peer", p.optString("peer"));
            if (had.has(conv) && p.optLong("head") < had.getJSONObject(conv).getLong("have") && !p.optBoolean("left")) wentBack();
            c.put("head", Math.max(c.getLong("head"), p.optLong("head")));
        }

        private void wentBack() { // P-6.8
            forget(store.getString("historyId"));
            throw new Ended();
        }

        /** Takes a message of an event or an ack. */
        private void entry(JSONObject m) {
            settle(m);
            var c = store.getJSONObject("convs").optJSONObject(m.getString("conv"));
            if (c == null) {
                stale = true; // the inbox, or a conversation that the sync will tell of
            } else {
                c.put("head", Math.max(c.getLong("head"), m.getLong("seq")));
                if (m.getLong("seq") == c.getLong("have") + 1) take(c, m);
            }
            changed();
        }

        private void take(JSONObject c, JSONObject m) {
            var messages = c.getJSONObject("messages");
            c.put("have", m.getLong("seq"));
            messages.put(m.getString("seq"), m);
            var change = m.optJSONObject("edit", m.optJSONObject("recall")); // P-5.3; a recall has no text
            if (change != null && messages.has(change.getString("target"))) messages.getJSONObject(change.getString("target")).put("text", change.optString("text"));
            save.run();
            show.accept(m);
        }

        private void settle(JSONObject m) { // P-4.8: an own entry is the message, whichever way it came
            if (welcome.getString("user").equals(m.optString("from"))) {
                remove("outgoing", m.getString("clientMsgId"));
                remove("failed", m.getString("clientMsgId"));
            }
        }

        private void repair(String conv) throws Refused, InterruptedException {
            while (true) {
                long have;
                synchronized (Client.this) {
                    var c = store.getJSONObject("convs").optJSONObject(conv);
                    if (c == null) return; // forgotten meanwhile
                    have = c.getLong("have");
                    if (have >= c.getLong("head") || unreadable.contains(conv)) return;
                }
                var page = page(conv, have);
                synchronized (Client.this) {
                    var c = store.getJSONObject("convs").optJSONObject(conv);
                    if (c == null) return;
                    if (page.to <= have) unreadable.add(conv); // until the next sync
                    for (var m : page.messages) {
                        settle(m);
                        if (m.getLong("seq") > c.getLong("have")) take(c, m); // over seqs that this user may not read
                    }
                    c.put("have", Math.max(c.getLong("have"), page.to));
                    save.run();
                }
            }
        }

        /** The entries above a seq, and the seq up to which no others will come. */
        record Page(List<JSONObject> messages, long to) {}

        private Page page(String conv, long after) throws Refused, InterruptedException {
            try {
                var p = insist("history", new JSONObject().put("conv", conv).put("after", Long.toString(after))).getJSONObject("history");
                var messages = list(p, "messages");
                return new Page(messages, p.optBoolean("more") ? messages.get(messages.size() - 1).getLong("seq") : p.optLong("head"));
            } catch (Refused e) {
                return new Page(List.of(), e.error.optLong("damagedTo")); // P-9.5
            }
        }

        private static List<JSONObject> list(JSONObject o, String key) {
            var all = new ArrayList<JSONObject>();
            if (o.has(key)) o.getJSONArray(key).forEach(m -> all.add((JSONObject) m));
            return all;
        }

        // Sending.

        private void pump(String target) throws Refused, InterruptedException {
            while (true) {
                JSONObject next = null;
                synchronized (Client.this) {
                    for (var m : list(store, "outgoing")) {
                        if (next == null && target.equals(m.getString("kind") + " " + m.getString("to"))) next = m;
                    }
                    if (next == null) {
                        pumps.remove(target);
                        return;
                    }
                }
                send(next);
            }
        }

        /** Ends when the message is acked, rejected or unknown for ever: P-4.9. */
        private void send(JSONObject m) throws Refused, InterruptedException {
            for (int tries = 0;;) {
                String conv = known(m.getString("kind"), m.getString("to"));
                if (!m.has("after")) { // P-6.6
                    long head = head(conv);
                    if (m.getBoolean("unsure")) look(m, conv, 0, head);
                    set(m, "after", head);
                }
                if (System.currentTimeMillis() - m.getLong("composedMs") > 30L * 86_400_000) fail(m, UNKNOWN);
                boolean before = m.getBoolean("unsure");
                if (m.getString("text").getBytes(StandardCharsets.UTF_8).length > welcome.getJSONObject("limits").getLong("bodyBytes")) fail(m, before ? UNKNOWN : "too_large");
                synchronized (Client.this) {
                    if (!outgoing(m)) return;
                    m.put("unsure", true); // of this attempt, until its answer is there
                    save.run();
                }
                try {
                    var body = new JSONObject().put(m.getString("kind"), m.getString("to")).put("clientMsgId", m.getString("id"));
                    var ack = ask("send", body.put("after", Long.toString(m.getLong("after"))).put("text", m.getString("text"))).getJSONObject("ack");
                    if (!ack.has("conv")) ack.put("conv", conv);
                    synchronized (Client.this) {
                        entry(ack.put("from", welcome.getString("user")).put("clientMsgId", m.getString("id")).put("text", m.getString("text")));
                    }
                } catch (Refused e) {
                    var code = e.error.getString("code");
                    if (List.of("rate_limited", "behind", "after_ahead").contains(code)) set(m, "unsure", before); // nothing is stored
                    if (code.equals("after_ahead")) {
                        wentBack();
                    } else if (code.equals("behind")) { // P-4.7
                        if (before) look(m, conv, m.getLong("after"), e.error.optLong("head"));
                        set(m, "after", e.error.optLong("head"));
                    } else if (code.equals("too_old") || e.error.optBoolean("settled")) {
                        fail(m, before || code.equals("too_old") ? UNKNOWN : code);
                    } else {
                        sleep(pause(tries++, e.error.optLong("retryAfterMs")));
                    }
                }
            }
        }

        /** Looks for the message among the entries above after, up to head. */
        private void look(JSONObject m, String conv, long after, long head) throws Refused, InterruptedException {
            while (after < head) {
                var page = page(conv, after);
                synchronized (Client.this) {
                    page.messages.forEach(this::settle);
                    if (!outgoing(m)) return;
                }
                if (page.to <= after) {
                    fail(m, UNKNOWN);
                    return;
                }
                after = page.to;
            }
        }
    }
}
