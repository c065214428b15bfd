import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import org.json.JSONArray;
import org.json.JSONObject;

/** Writes with the client of proto/example, until both sides have everything. */
public class Drive {
    static final int BURST = 10;

    static String env(String name) {
        return System.getenv(name);
    }

    public static void main(String[] args) throws Exception {
        var store = Client.emptyStore();
        var file = Path.of(env("STORE"));
        var part = Path.of(env("STORE") + ".part");
        var shown = new ArrayList<JSONObject>(); // guarded by the client's monitor, as the store
        Runnable save = () -> {
            try {
                Files.writeString(part, store.toString());
                Files.move(part, file, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        };
        var client = new Client(URI.create(env("PETREL_URL")), env("TOKEN"), store, save, shown::add);
        var run = new Thread(() -> {
            try {
                System.err.println("the client has ended: " + client.run());
            } catch (Exception e) {
                e.printStackTrace();
            }
            System.exit(1);
        });
        run.start();
        // The client says nothing when it is done, so the driver looks again and again.
        int count = Integer.parseInt(env("MESSAGES"));
        for (int i = 0; i < count; i++) {
            client.compose("user", env("PEER"), env("ME") + " " + i);
            client.compose("conv", env("GROUP"), env("ME") + " " + i);
            if (i % BURST == BURST - 1) {
                synchronized (client) {
                    while (store.getJSONArray("outgoing").length() >= BURST) client.wait(10);
                }
            }
        }
        synchronized (client) {
            while (!store.getJSONArray("outgoing").isEmpty() || texts(shown) < 2 * 2 * count) client.wait(10);
            System.out.println(new JSONObject().put("shown", new JSONArray(shown)).put("failed", store.getJSONArray("failed")));
        }
        System.out.flush();
        System.exit(0);
    }

    static long texts(List<JSONObject> shown) {
        return shown.stream().filter(m -> m.has("text")).count();
    }
}
