import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.dictionary.DictionaryEncoder;
import org.apache.arrow.vector.ipc.ArrowFileReader;

/**
 * Opens the last segment of a table that is being written until the time is over, and checks the rows that
 * tests/live/rows.py defines.
 */
final class Live {
    private static final int PERIOD = 1 << 14;
    private static final long START = 1_700_000_000_000_000L;

    static void run(Path folder, double seconds) throws Exception {
        Map<String, Integer> most = new HashMap<>();
        List<String> complaints = new ArrayList<>();
        long opens = 0;
        long rows = 0;
        long wrong = 0;
        long deadline = System.nanoTime() + (long) (seconds * 1e9);
        // Not closed: a reader that fails leaks, and the complaint about that would hide why it failed.
        BufferAllocator allocator = new RootAllocator();
        {
            while (System.nanoTime() < deadline) {
                Path path = last(folder);
                String name = path.getFileName().toString();
                opens++;
                long began = System.nanoTime();
                try {
                    int found = look(path, Long.parseLong(name.substring(0, 20)), allocator);
                    rows += found;
                    same("rows after more", Math.max(found, most.getOrDefault(name, 0)), found);
                    most.put(name, found);
                } catch (Exception e) {
                    wrong++;
                    if (complaints.size() < 5) {
                        long millis = (System.nanoTime() - began) / 1_000_000;
                        complaints.add(name + ", open " + opens + ", after " + millis + " ms: " + e);
                    }
                }
            }
        }
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("opens", opens);
        said.put("rows", rows);
        said.put("wrong", wrong);
        said.put("complaints", complaints);
        System.out.println(new ObjectMapper().writeValueAsString(said));
    }

    private static Path last(Path folder) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.filter(path -> path.toString().endsWith(".arrow"))
                    .sorted()
                    .reduce((a, b) -> b)
                    .orElseThrow();
        }
    }

    private static int look(Path path, long first, BufferAllocator allocator) throws IOException {
        int rows = 0;
        try (FileInputStream file = new FileInputStream(path.toFile());
                ArrowFileReader reader = new ArrowFileReader(file.getChannel(), allocator)) {
            VectorSchemaRoot root = reader.getVectorSchemaRoot();
            while (reader.loadNextBatch()) {
                long id = root.getVector(2).getField().getDictionary().getId();
                try (FieldVector symbols = (FieldVector) DictionaryEncoder.decode(
                        root.getVector(2), reader.getDictionaryVectors().get(id))) {
                    for (int row = 0; row < root.getRowCount(); row++) {
                        check(root, (VarCharVector) symbols, row, first + rows + row);
                    }
                }
                rows += root.getRowCount();
            }
        }
        return rows;
    }

    private static void check(VectorSchemaRoot root, VarCharVector symbols, int row, long i) {
        int near = (int) (i % PERIOD);
        same("row", i, ((BigIntVector) root.getVector(0)).get(row));
        same("ts", START + i / 3 * 10, ((TimeStampMicroTZVector) root.getVector(1)).get(row));
        same("symbol", "S" + near / 16, symbols.getObject(row).toString());
        same("price", i % 10 == 3 ? null : i * 0.25, ((Float8Vector) root.getVector(3)).getObject(row));
        Object text = root.getVector(4).getObject(row);
        String wanted = near % 13 == 5 ? null : Integer.toHexString(near).repeat(near % 4);
        same("text", wanted, text == null ? null : text.toString());
        ListVector lists = (ListVector) root.getVector(5);
        same("list is null", near % 17 == 3, lists.isNull(row));
        if (!lists.isNull(row)) {
            int start = lists.getElementStartIndex(row);
            same("length of list", near % 5, lists.getElementEndIndex(row) - start);
            for (int k = 0; k < near % 5; k++) {
                same("item", near + k, ((IntVector) lists.getDataVector()).get(start + k));
            }
        }
    }

    private static void same(String what, Object wanted, Object got) {
        if (wanted == null ? got != null : !wanted.equals(got)) {
            throw new IllegalStateException(what + ": " + got + " instead of " + wanted);
        }
    }
}
