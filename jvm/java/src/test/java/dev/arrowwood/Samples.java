package dev.arrowwood;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Files that tests read. */
final class Samples {
    private Samples() {}

    /** A file of so many rows: {@code n}, counting from 0, {@code x}, a half more, and {@code word}. */
    static Path numbers(Path folder, long rows) throws IOException {
        Path file = folder.resolve("numbers" + rows + ".arrow");
        StringBuilder csv = new StringBuilder("n,x,word\n");
        for (long n = 0; n < rows; n++) {
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

    /** A file of one row, whose text and the only item of whose list are so long. */
    static Path longText(Path folder, int length) throws Exception {
        Path file = folder.resolve("text" + length + ".arrow");
        String text = "x".repeat(length);
        Path json = Files.writeString(
                folder.resolve("text.json"), "{\"s\": \"" + text + "\", \"items\": [\"" + text + "\"]}\n");
        Programs.run(Programs.command(), "import", json, file);
        return file;
    }
}
