import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.transport.Netty4Plugin;

/** One node of Elasticsearch on loopback, for tests: its home folder, its HTTP port, its port for other nodes. */
public class EmbeddedElasticsearch extends Node {
    private EmbeddedElasticsearch(Environment environment, Collection<Class<? extends Plugin>> plugins) {
        super(environment, plugins, false);
    }

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]);
        Settings settings = Settings.builder()
                .put("path.home", home.toString())
                .put("cluster.name", "tests")
                .put("node.name", "one")
                .put("discovery.type", "single-node")
                .put("network.host", "127.0.0.1")
                .put("http.port", arguments[1])
                .put("transport.port", arguments[2])
                .put("transport.type", "netty4")
                .put("http.type", "netty4")
                .put("node.processors", 2)
                .put("cluster.routing.allocation.disk.threshold_enabled", false)
                .build();
        new EmbeddedElasticsearch(new Environment(settings, home.resolve("config")), List.of(Netty4Plugin.class))
                .start();
        Thread.currentThread().join();
    }
}
