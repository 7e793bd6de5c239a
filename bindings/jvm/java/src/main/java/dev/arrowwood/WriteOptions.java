package dev.arrowwood;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.internal.Struct;
import dev.arrowwood.internal.Unsigned;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * Options for {@link Dataset#write}.
 *
 * @param format a file or a stream
 * @param compression the compression of buffers
 * @param maxRows the maximum number of rows in a record batch; 0 keeps the batches
 */
public record WriteOptions(Format format, Compression compression, long maxRows) {
    /** A file without compression, in the dataset's batches. */
    public static final WriteOptions FILE = new WriteOptions(Format.FILE, Compression.NONE, 0);

    /** A stream without compression, in the dataset's batches. */
    public static final WriteOptions STREAM = new WriteOptions(Format.STREAM, Compression.NONE, 0);

    /** {@code arrowwood_write_options}. */
    static final Struct STRUCT = new Struct(
            JAVA_LONG.withName("size"),
            JAVA_INT.withName("format"),
            JAVA_INT.withName("compression"),
            JAVA_LONG.withName("max_rows"));

    /** The two formats of Arrow IPC. */
    public enum Format {
        /** With a footer, for random access. */
        FILE(0),
        /** Read front to back. */
        STREAM(1);

        /** The value of {@code enum arrowwood_format}. */
        final int code;

        Format(int code) {
            this.code = code;
        }
    }

    /** The compression of buffers. */
    public enum Compression {
        /** None: the data can be opened in place. */
        NONE(0),
        /** LZ4 frames. */
        LZ4(1),
        /** Zstandard. */
        ZSTD(2);

        /** The value of {@code enum arrowwood_compression}. */
        final int code;

        Compression(int code) {
            this.code = code;
        }
    }

    /**
     * Checks the options.
     *
     * @throws NullPointerException if the format or the compression is null
     * @throws IllegalArgumentException if the number of rows is negative
     */
    public WriteOptions {
        Objects.requireNonNull(format, "format");
        Objects.requireNonNull(compression, "compression");
        Unsigned.count("maxRows", maxRows);
    }

    /**
     * Returns the same options with a compression.
     *
     * @param compression the compression of buffers
     * @return new options
     */
    public WriteOptions compressed(Compression compression) {
        return new WriteOptions(format, compression, maxRows);
    }

    /**
     * Returns the same options with a limit of rows.
     *
     * @param maxRows the maximum number of rows in a record batch; 0 keeps the batches
     * @return new options
     * @throws IllegalArgumentException if the number is negative
     */
    public WriteOptions withMaxRows(long maxRows) {
        return new WriteOptions(format, compression, maxRows);
    }

    /** Returns the options as an {@code arrowwood_write_options}. */
    MemorySegment toStruct(Arena arena) {
        MemorySegment options = STRUCT.allocateWithSize(arena);
        STRUCT.setInt(options, "format", format.code);
        STRUCT.setInt(options, "compression", compression.code);
        STRUCT.setLong(options, "max_rows", maxRows);
        return options;
    }
}
