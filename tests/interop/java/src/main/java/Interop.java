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
            Writer.writeFiles(folder);
            return;
        }
        if (arguments[0].equals("paused")) {
            PausedChannel file = new PausedChannel(Files.newByteChannel(folder));
            printJson(readFile(folder, new ArrowFileReader(file, new RootAllocator())));
            return;
        }
        List<Path> paths;
        try (Stream<Path> all = Files.list(folder)) {
            paths = all.filter(path -> path.toString().matches(".*\\.(arrow|stream)"))
                    .sorted()
                    .toList();
        }
        for (Path path : paths) {
            // The allocator isn't closed: it would report the memory that a failed read leaked, and hide why it failed.
            printJson(readFile(path, openReader(path, new RootAllocator())));
        }
    }

    private static void printJson(Map<String, Object> line) throws Exception {
        System.out.println(new ObjectMapper().writeValueAsString(line));
    }

    private static Map<String, Object> readFile(Path path, ArrowReader reader) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("file", path.getFileName().toString());
        try {
            line.put("rows", readRows(reader));
            // Any failure is the answer for this file. Arrow Java throws errors such as UnsatisfiedLinkError too.
        } catch (Throwable e) {
            line.put("error", e.toString());
        }
        return line;
    }

    private static List<Object> readRows(ArrowReader reader) throws Exception {
        List<Object> rows = new ArrayList<>();
        try (reader) {
            VectorSchemaRoot root = reader.getVectorSchemaRoot();
            while (reader.loadNextBatch()) {
                Spelling spelling = new Spelling(reader);
                for (int row = 0; row < root.getRowCount(); row++) {
                    List<Object> cells = new ArrayList<>();
                    for (FieldVector column : root.getFieldVectors()) {
                        cells.add(spelling.spell(column, row));
                    }
                    rows.add(cells);
                }
            }
        }
        return rows;
    }

    private static ArrowReader openReader(Path path, BufferAllocator allocator) throws Exception {
        return path.toString().endsWith(".stream")
                ? new ArrowStreamReader(
                        new ByteArrayInputStream(Files.readAllBytes(path)),
                        allocator,
                        CommonsCompressionFactory.INSTANCE)
                : new ArrowFileReader(Files.newByteChannel(path), allocator, CommonsCompressionFactory.INSTANCE);
    }
}
