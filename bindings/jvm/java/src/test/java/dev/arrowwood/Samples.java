package dev.arrowwood;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Writes small Arrow files for tests. */
final class Samples {
    private Samples() {}

    /**
     * Writes a file with the columns {@code n}, which counts from 0, {@code x}, which is {@code n + 0.5}, and
     * {@code word}, which has ten different values.
     */
    static Path writeNumbers(Path folder, long rowCount) throws IOException {
        Path file = folder.resolve("numbers" + rowCount + ".arrow");
        StringBuilder csv = new StringBuilder("n,x,word\n");
        for (long n = 0; n < rowCount; n++) {
            csv.append(n)
                    .append(',')
                    .append(n)
                    .append(".5,word ")
                    .append(n % 10)
                    .append('\n');
        }
        Arrowwood.readCsv(Files.writeString(folder.resolve("numbers.csv"), csv)).write(file);
        return file;
    }

    /** Writes a file of one row: a text {@code s} of the given length, and a list {@code items} with the same text. */
    static Path writeLongText(Path folder, int length) throws Exception {
        Path file = folder.resolve("text" + length + ".arrow");
        String text = "x".repeat(length);
        Path json = Files.writeString(
                folder.resolve("text.json"), "{\"s\": \"" + text + "\", \"items\": [\"" + text + "\"]}\n");
        Programs.run(Programs.arrowwood(), "import", json, file);
        return file;
    }
}
