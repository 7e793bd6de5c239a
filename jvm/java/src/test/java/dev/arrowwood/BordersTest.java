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

/** Java's columns of docs/borders.md: each value of the matrix is read, written and appended, or refused as the page says. */
class BordersTest {
    private static final Path MATRIX =
            Path.of(System.getProperty("arrowwood.docs"), "../tests/python/borders/samples.py");

    @TempDir
    Path folder;

    private final List<String> wrong = new ArrayList<>();

    private interface Way {
        Dataset go(Dataset dataset, Path target) throws Exception;
    }

    @Test
    void valuesAreTheSameBehindTheBorderOrRefused() throws Exception {
        assumeTrue(Programs.python().isPresent(), "there is no Python with Arrowwood here");
        Programs.run(Programs.python().get(), MATRIX.toRealPath(), folder);
        JsonObject expected = JsonParser.parseString(Files.readString(folder.resolve("expected.json")))
                .getAsJsonObject();
        assertTrue(expected.size() > 150, "there are " + expected.size() + " files");
        for (String name : expected.keySet()) {
            JsonObject sample = expected.getAsJsonObject(name);
            Dataset dataset = Arrowwood.open(folder.resolve(name));
            take("Java open", sample, dataset, (given, target) -> given);
            take("Java write", sample, dataset, BordersTest::written);
            Dataset table = sample.has("table")
                    ? Arrowwood.open(folder.resolve(sample.get("table").getAsString()))
                    : dataset;
            take("Java append", sample, dataset, (given, target) -> appended(given, target, table.schema()));
            take("Java rows", sample, dataset, BordersTest::appendedByRow);
        }
        assertEquals(List.of(), wrong);
    }

    private static Dataset written(Dataset given, Path target) throws Exception {
        given.write(target, WriteOptions.STREAM.compressed(WriteOptions.Compression.ZSTD));
        assertEquals(given.schema(), Arrowwood.open(target).schema());
        given.write(target, WriteOptions.FILE);
        return Arrowwood.open(target);
    }

    private static Dataset appended(Dataset given, Path target, Schema schema) throws Exception {
        try (TableWriter writer = TableWriter.open(target, schema)) {
            writer.append(given);
            writer.commit();
        }
        return Arrowwood.open(target);
    }

    private static Dataset appendedByRow(Dataset given, Path target) throws Exception {
        try (TableWriter writer = TableWriter.open(target, given.schema())) {
            given.stream().forEach(row -> writer.appendRow(row.toArray()));
            writer.commit();
        }
        return Arrowwood.open(target);
    }

    private void take(String border, JsonObject sample, Dataset dataset, Way way) throws Exception {
        String what = border + ", " + sample.get("type").getAsString() + ": ";
        JsonObject refused = sample.getAsJsonObject("refused");
        String message = refused.has(border) ? refused.get(border).getAsString() : null;
        JsonArray rows = sample.getAsJsonArray("rows");
        try {
            JsonArray found = Spelled.rows(
                    way.go(dataset, Files.createTempDirectory(folder, "t").resolve("x")));
            if (message != null) {
                wrong.add(what + "taken, though listed as refused: " + message);
            } else if (!Spelled.same(rows, found)) {
                wrong.add(what + "expected " + rows + ", got " + found);
            }
        } catch (Exception e) {
            if (message == null || !String.valueOf(e.getMessage()).contains(message)) {
                wrong.add(what + "expected " + message + ", refused: " + e);
            }
        }
    }
}
