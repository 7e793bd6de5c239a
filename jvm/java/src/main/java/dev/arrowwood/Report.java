package dev.arrowwood;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.OptionalLong;

/**
 * The findings of {@link Arrowwood#check} or {@link Arrowwood#repair}.
 *
 * @param rows rows, damaged or not, as far as known
 * @param batches record batches
 * @param segments segments of a table; 0 for a file
 * @param damaged findings that are damage; 0 if the data is intact
 * @param kept rows kept by a repair; 0 if nothing was repaired
 * @param givenUp rows given up by a repair; empty if unknown
 * @param findings each finding, as it was before a repair
 * @param moved damaged files and directories, by the names that a repair gave them
 */
public record Report(
        long rows,
        long batches,
        long segments,
        long damaged,
        long kept,
        OptionalLong givenUp,
        List<Finding> findings,
        List<String> moved) {
    /**
     * A finding.
     *
     * @param path the file
     * @param offset position in the file, in bytes; empty if unknown
     * @param message the finding
     * @param isDamage whether it is damage
     */
    public record Finding(String path, OptionalLong offset, String message, boolean isDamage) {
        /** Reads a row of the findings that the library lists. */
        static Finding of(Row row) {
            OptionalLong offset =
                    row.get("offset") instanceof Long number ? OptionalLong.of(number) : OptionalLong.empty();
            return new Finding(row.getString("path"), offset, row.getString("message"), row.getBoolean("is_damage"));
        }
    }

    /** The size of {@code arrowwood_report}. */
    static final long SIZE = 56;

    /**
     * Returns whether no damage was found.
     *
     * @return true if the data is intact
     */
    public boolean isIntact() {
        return damaged == 0;
    }

    /** Reads an {@code arrowwood_report}. */
    static Report of(MemorySegment struct, List<Finding> findings, List<String> moved) {
        long givenUp = struct.get(JAVA_LONG, 48);
        return new Report(
                struct.get(JAVA_LONG, 8),
                struct.get(JAVA_LONG, 16),
                struct.get(JAVA_LONG, 24),
                struct.get(JAVA_LONG, 32),
                struct.get(JAVA_LONG, 40),
                givenUp < 0 ? OptionalLong.empty() : OptionalLong.of(givenUp),
                List.copyOf(findings),
                List.copyOf(moved));
    }
}
