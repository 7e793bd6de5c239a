package dev.arrowwood;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Options for {@link Dataset#write}.
 *
 * @param format a file or a stream
 * @param compression the compression of buffers
 * @param maxRows the maximum number of rows in a record batch; 0 keeps the batches
 */
public record WriteOptions(Format format, Compression compression, long maxRows) {
    /** The two formats of Arrow IPC. */
    public enum Format {
        /** With a footer, for random access. */
        FILE,
        /** Read front to back. */
        STREAM
    }

    /** The compression of buffers. */
    public enum Compression {
        /** None: the data can be opened in place. */
        NONE,
        /** LZ4 frames. */
        LZ4,
        /** Zstandard. */
        ZSTD
    }

    /** The size of {@code arrowwood_write_options}. */
    private static final long SIZE = 24;

    /** Checks the options. */
    public WriteOptions {
        Unsigned.count("maxRows", maxRows);
    }

    /** A file without compression. */
    public static final WriteOptions FILE = new WriteOptions(Format.FILE, Compression.NONE, 0);

    /** A stream without compression. */
    public static final WriteOptions STREAM = new WriteOptions(Format.STREAM, Compression.NONE, 0);

    /**
     * Returns the same options with a compression.
     *
     * @param other the compression
     * @return options
     */
    public WriteOptions compressed(Compression other) {
        return new WriteOptions(format, other, maxRows);
    }

    /**
     * Returns the same options with a limit of rows.
     *
     * @param rows the maximum number of rows in a record batch
     * @return options
     */
    public WriteOptions withMaxRows(long rows) {
        return new WriteOptions(format, compression, rows);
    }

    /** Returns the options as an {@code arrowwood_write_options}. */
    MemorySegment struct(Arena arena) {
        MemorySegment struct = arena.allocate(SIZE, 8);
        struct.set(JAVA_LONG, 0, SIZE);
        struct.set(JAVA_INT, 8, format.ordinal());
        struct.set(JAVA_INT, 12, compression.ordinal());
        struct.set(JAVA_LONG, 16, maxRows);
        return struct;
    }
}
