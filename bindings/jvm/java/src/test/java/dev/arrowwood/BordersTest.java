package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tests Java's columns of docs/borders.md: each value of the matrix is read, written and appended unchanged, or refused
 * with the documented message.
 */
class BordersTest {
    private static final Path SAMPLES_SCRIPT =
            Path.of(System.getProperty("arrowwood.docs"), "../tests/python/borders/samples.py");

    @TempDir
    Path folder;

    private final List<String> failures = new ArrayList<>();

    /** Takes a dataset across a border, and returns what arrives. */
    private interface Crossing {
        Dataset cross(Dataset dataset, Path target) throws Exception;
    }

    @Test
    void valuesCrossBordersUnchangedOrAreRefused() throws Exception {
        assumeTrue(Programs.python().isPresent(), "there is no Python with Arrowwood here");
        Programs.run(Programs.python().get(), SAMPLES_SCRIPT.toRealPath(), folder);
        JsonObject samples = JsonParser.parseString(Files.readString(folder.resolve("expected.json")))
                .getAsJsonObject();
        assertTrue(samples.size() > 150, "there are " + samples.size() + " files");
        for (String name : samples.keySet()) {
            JsonObject sample = samples.getAsJsonObject(name);
            Dataset dataset = Arrowwood.open(folder.resolve(name));
            Dataset table = sample.has("table")
                    ? Arrowwood.open(folder.resolve(sample.get("table").getAsString()))
                    : dataset;
            check("Java open", sample, dataset, (opened, target) -> opened);
            check("Java write", sample, dataset, BordersTest::write);
            check("Java append", sample, dataset, (opened, target) -> append(opened, target, table.schema()));
            check("Java rows", sample, dataset, BordersTest::appendRows);
        }
        assertEquals(List.of(), failures);
    }

    private static Dataset write(Dataset dataset, Path target) throws Exception {
        dataset.write(target, WriteOptions.STREAM.compressed(WriteOptions.Compression.ZSTD));
        assertEquals(dataset.schema(), Arrowwood.open(target).schema());
        dataset.write(target, WriteOptions.FILE);
        return Arrowwood.open(target);
    }

    private static Dataset append(Dataset dataset, Path target, Schema schema) throws Exception {
        try (TableWriter writer = TableWriter.open(target, schema)) {
            writer.append(dataset);
            writer.commit();
        }
        return Arrowwood.open(target);
    }

    private static Dataset appendRows(Dataset dataset, Path target) throws Exception {
        try (TableWriter writer = TableWriter.open(target, dataset.schema())) {
            dataset.stream().forEach(row -> writer.appendRow(row.toArray()));
            writer.commit();
        }
        return Arrowwood.open(target);
    }

    /** Adds a failure if the result of a crossing isn't as documented. */
    private void check(String border, JsonObject sample, Dataset dataset, Crossing crossing) throws Exception {
        String description = border + ", " + sample.get("type").getAsString() + ": ";
        JsonObject refusals = sample.getAsJsonObject("refused");
        String refusal = refusals.has(border) ? refusals.get(border).getAsString() : null;
        JsonArray expected = sample.getAsJsonArray("rows");
        Path target = Files.createTempDirectory(folder, "t").resolve("x");
        try {
            JsonArray actual = CanonicalJson.encodeRows(crossing.cross(dataset, target));
            if (refusal != null) {
                failures.add(description + "taken, though listed as refused: " + refusal);
            } else if (!CanonicalJson.areEqual(expected, actual)) {
                failures.add(description + "expected " + expected + ", got " + actual);
            }
        } catch (Exception e) {
            if (refusal == null || !String.valueOf(e.getMessage()).contains(refusal)) {
                failures.add(description + "expected " + refusal + ", refused: " + e);
            }
        }
    }
}
