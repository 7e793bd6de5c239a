package dev.arrowwood;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.internal.Struct;
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
     * One finding in one file.
     *
     * @param path the file
     * @param offset position in the file, in bytes; empty if unknown
     * @param message what was found
     * @param isDamage true for damage, false for a note
     */
    public record Finding(String path, OptionalLong offset, String message, boolean isDamage) {
        /** Reads a row of the findings that the library lists. */
        static Finding of(Row row) {
            OptionalLong offset =
                    row.get("offset") instanceof Long number ? OptionalLong.of(number) : OptionalLong.empty();
            return new Finding(row.getString("path"), offset, row.getString("message"), row.getBoolean("is_damage"));
        }
    }

    /** {@code arrowwood_report}. */
    static final Struct STRUCT = new Struct(
            JAVA_LONG.withName("size"),
            JAVA_LONG.withName("rows"),
            JAVA_LONG.withName("batches"),
            JAVA_LONG.withName("segments"),
            JAVA_LONG.withName("damaged"),
            JAVA_LONG.withName("kept"),
            JAVA_LONG.withName("given_up"));

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
        // -1 if unknown.
        long givenUp = STRUCT.getLong(struct, "given_up");
        return new Report(
                STRUCT.getLong(struct, "rows"),
                STRUCT.getLong(struct, "batches"),
                STRUCT.getLong(struct, "segments"),
                STRUCT.getLong(struct, "damaged"),
                STRUCT.getLong(struct, "kept"),
                givenUp < 0 ? OptionalLong.empty() : OptionalLong.of(givenUp),
                List.copyOf(findings),
                List.copyOf(moved));
    }
}
