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
 * Opens the newest segment of a growing table again and again, and checks its rows, which tests/live/rows.py defines.
 */
final class Live {
    private static final int PERIOD = 1 << 14;
    private static final long START_MICROS = 1_700_000_000_000_000L;
    private static final int MAX_COMPLAINTS = 5;

    static void run(Path folder, double seconds) throws Exception {
        Map<String, Integer> rowCounts = new HashMap<>();
        List<String> complaints = new ArrayList<>();
        long opens = 0;
        long rows = 0;
        long wrong = 0;
        long deadline = System.nanoTime() + (long) (seconds * 1e9);
        // The allocator isn't closed: it would report the memory that a failed read leaked, and hide why it failed.
        BufferAllocator allocator = new RootAllocator();
        while (System.nanoTime() < deadline) {
            Path path = newestSegment(folder);
            String name = path.getFileName().toString();
            opens++;
            long start = System.nanoTime();
            try {
                int count = checkSegment(path, Long.parseLong(name.substring(0, 20)), allocator);
                rows += count;
                assertEqual("rows after more", Math.max(count, rowCounts.getOrDefault(name, 0)), count);
                rowCounts.put(name, count);
            } catch (Exception e) {
                wrong++;
                if (complaints.size() < MAX_COMPLAINTS) {
                    long millis = (System.nanoTime() - start) / 1_000_000;
                    complaints.add(name + ", open " + opens + ", after " + millis + " ms: " + e);
                }
            }
        }
        Map<String, Object> figures = new LinkedHashMap<>();
        figures.put("opens", opens);
        figures.put("rows", rows);
        figures.put("wrong", wrong);
        figures.put("complaints", complaints);
        System.out.println(new ObjectMapper().writeValueAsString(figures));
    }

    private static Path newestSegment(Path folder) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.filter(path -> path.toString().endsWith(".arrow"))
                    .sorted()
                    .reduce((a, b) -> b)
                    .orElseThrow();
        }
    }

    private static int checkSegment(Path path, long firstRow, BufferAllocator allocator) throws IOException {
        int rows = 0;
        try (FileInputStream file = new FileInputStream(path.toFile());
                ArrowFileReader reader = new ArrowFileReader(file.getChannel(), allocator)) {
            VectorSchemaRoot root = reader.getVectorSchemaRoot();
            while (reader.loadNextBatch()) {
                long id = root.getVector(2).getField().getDictionary().getId();
                try (FieldVector symbols = (FieldVector) DictionaryEncoder.decode(
                        root.getVector(2), reader.getDictionaryVectors().get(id))) {
                    for (int row = 0; row < root.getRowCount(); row++) {
                        checkRow(root, (VarCharVector) symbols, row, firstRow + rows + row);
                    }
                }
                rows += root.getRowCount();
            }
        }
        return rows;
    }

    private static void checkRow(VectorSchemaRoot root, VarCharVector symbols, int row, long number) {
        int periodic = (int) (number % PERIOD);
        assertEqual("row", number, ((BigIntVector) root.getVector(0)).get(row));
        assertEqual("ts", START_MICROS + number / 3 * 10, ((TimeStampMicroTZVector) root.getVector(1)).get(row));
        assertEqual("symbol", "S" + periodic / 16, symbols.getObject(row).toString());
        assertEqual(
                "price", number % 10 == 3 ? null : number * 0.25, ((Float8Vector) root.getVector(3)).getObject(row));
        Object text = root.getVector(4).getObject(row);
        String expected =
                periodic % 13 == 5 ? null : Integer.toHexString(periodic).repeat(periodic % 4);
        assertEqual("text", expected, text == null ? null : text.toString());
        ListVector lists = (ListVector) root.getVector(5);
        assertEqual("list is null", periodic % 17 == 3, lists.isNull(row));
        if (!lists.isNull(row)) {
            int start = lists.getElementStartIndex(row);
            assertEqual("length of list", periodic % 5, lists.getElementEndIndex(row) - start);
            for (int k = 0; k < periodic % 5; k++) {
                assertEqual("item", periodic + k, ((IntVector) lists.getDataVector()).get(start + k));
            }
        }
    }

    private static void assertEqual(String name, Object expected, Object actual) {
        if (expected == null ? actual != null : !expected.equals(actual)) {
            throw new IllegalStateException(name + ": " + actual + " instead of " + expected);
        }
    }
}
