package dev.arrowwood;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

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
 * @param durableEnd after the last one that would survive a power failure, as far as the files tell
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
    /** The size of {@code arrowwood_stat}. */
    static final long SIZE = 88;

    /** Reads an {@code arrowwood_stat}. */
    static TableStat of(MemorySegment struct) {
        long segmentRows = struct.get(JAVA_LONG, 72);
        int writer = struct.get(JAVA_INT, 80);
        return new TableStat(
                struct.get(JAVA_LONG, 8),
                struct.get(JAVA_LONG, 16),
                struct.get(JAVA_LONG, 24),
                struct.get(JAVA_LONG, 32),
                struct.get(JAVA_LONG, 40),
                struct.get(JAVA_LONG, 48),
                struct.get(JAVA_LONG, 56),
                struct.get(JAVA_LONG, 64),
                segmentRows == 0 ? OptionalLong.empty() : OptionalLong.of(segmentRows),
                writer == 0 ? OptionalInt.empty() : OptionalInt.of(writer),
                struct.get(JAVA_INT, 84) != 0);
    }
}
