package dev.arrowwood;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.internal.Struct;
import java.lang.foreign.MemorySegment;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * Facts about a table.
 *
 * @param segments files of the table
 * @param dense the number of dense Arrow files among them, as written by compacting
 * @param firstRow the number of the first row
 * @param end the number of the row after the last one committed
 * @param durableEnd the number of the row after the last one that would survive a power failure, as far as the files
 *     tell
 * @param sequence increases with each commit
 * @param disk bytes allocated on disk
 * @param apparent sizes of the files in bytes, including holes reserved for future rows
 * @param segmentRows the maximum number of rows in a segment; empty if unknown
 * @param writer process id of the current writer; empty if there is none
 * @param isLive whether the last segment grows
 */
public record TableStat(
        long segments,
        long dense,
        long firstRow,
        long end,
        long durableEnd,
        long sequence,
        long disk,
        long apparent,
        OptionalLong segmentRows,
        OptionalInt writer,
        boolean isLive) {
    /** {@code arrowwood_stat}. */
    static final Struct STRUCT = new Struct(
            JAVA_LONG.withName("size"),
            JAVA_LONG.withName("segments"),
            JAVA_LONG.withName("dense"),
            JAVA_LONG.withName("first_row"),
            JAVA_LONG.withName("end"),
            JAVA_LONG.withName("durable_end"),
            JAVA_LONG.withName("sequence"),
            JAVA_LONG.withName("disk"),
            JAVA_LONG.withName("apparent"),
            JAVA_LONG.withName("segment_rows"),
            JAVA_INT.withName("writer"),
            JAVA_INT.withName("is_live"));

    /** Reads an {@code arrowwood_stat}. */
    static TableStat of(MemorySegment struct) {
        // 0 if unknown.
        long segmentRows = STRUCT.getLong(struct, "segment_rows");
        // 0 if there is none.
        int writer = STRUCT.getInt(struct, "writer");
        return new TableStat(
                STRUCT.getLong(struct, "segments"),
                STRUCT.getLong(struct, "dense"),
                STRUCT.getLong(struct, "first_row"),
                STRUCT.getLong(struct, "end"),
                STRUCT.getLong(struct, "durable_end"),
                STRUCT.getLong(struct, "sequence"),
                STRUCT.getLong(struct, "disk"),
                STRUCT.getLong(struct, "apparent"),
                segmentRows == 0 ? OptionalLong.empty() : OptionalLong.of(segmentRows),
                writer == 0 ? OptionalInt.empty() : OptionalInt.of(writer),
                STRUCT.getInt(struct, "is_live") != 0);
    }
}
