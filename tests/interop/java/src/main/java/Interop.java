import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.arrow.compression.CommonsCompressionFactory;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.ipc.ArrowStreamReader;

/**
 * Reads and writes Arrow with Arrow Java for run.py: {@code read FOLDER} or {@code write FOLDER}; {@code live} for
 * tests/live/live.py, {@code paused FILE} for tests/python/test_pauses.py.
 */
public final class Interop {
    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[1]);
        if (arguments[0].equals("live")) {
            Live.run(folder, Double.parseDouble(arguments[2]));
            return;
        }
        if (arguments[0].equals("write")) {
            Writer.writeBoth(folder);
            return;
        }
        if (arguments[0].equals("paused")) {
            PausedChannel file = new PausedChannel(Files.newByteChannel(folder));
            say(line(folder, new ArrowFileReader(file, new RootAllocator())));
            return;
        }
        List<Path> paths;
        try (Stream<Path> all = Files.list(folder)) {
            paths = all.filter(path -> path.toString().matches(".*\\.(arrow|stream)"))
                    .sorted()
                    .toList();
        }
        for (Path path : paths) {
            // An allocator that is closed complains of what a failed read leaked, and would hide why it failed.
            say(line(path, reader(path, new RootAllocator())));
        }
    }

    private static void say(Map<String, Object> line) throws Exception {
        System.out.println(new ObjectMapper().writeValueAsString(line));
    }

    private static Map<String, Object> line(Path path, ArrowReader reader) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("file", path.getFileName().toString());
        try {
            line.put("rows", rows(reader));
        } catch (Throwable e) {
            line.put("error", e.toString());
        }
        return line;
    }

    private static List<Object> rows(ArrowReader reader) throws Exception {
        List<Object> rows = new ArrayList<>();
        try (reader) {
            VectorSchemaRoot root = reader.getVectorSchemaRoot();
            while (reader.loadNextBatch()) {
                Spelling spelling = new Spelling(reader);
                for (int row = 0; row < root.getRowCount(); row++) {
                    List<Object> cells = new ArrayList<>();
                    for (FieldVector column : root.getFieldVectors()) {
                        cells.add(spelling.of(column, row));
                    }
                    rows.add(cells);
                }
            }
        }
        return rows;
    }

    private static ArrowReader reader(Path path, BufferAllocator allocator) throws Exception {
        return path.toString().endsWith(".stream")
                ? new ArrowStreamReader(
                        new ByteArrayInputStream(Files.readAllBytes(path)),
                        allocator,
                        CommonsCompressionFactory.INSTANCE)
                : new ArrowFileReader(Files.newByteChannel(path), allocator, CommonsCompressionFactory.INSTANCE);
    }
}
