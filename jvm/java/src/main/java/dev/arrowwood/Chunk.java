package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.LongStream;

/**
 * The buffers of a column's rows in one batch, as the Arrow Columnar Format lays them out. All begin at the chunk's
 * first row: value {@code i} of a column of doubles is {@code values().getAtIndex(JAVA_DOUBLE_UNALIGNED, i)}. Segments
 * are read-only, and live as long as the dataset's arena; if there is none, as long as anything refers to them.
 *
 * <p>The type determines the buffers: <ul>
 * <li>numbers, times, decimals, fixed-size binary: values; booleans: values, a bitmap;
 * <li>text and binary: offsets (rows + 1) into data; as views: values (16 bytes each), variadic;
 * <li>lists and maps: offsets into the only child; as views: offsets and sizes; of one size: the child alone;
 * <li>structs: children; unions: values (type ids), offsets if they are dense, children;
 * <li>dictionary: values (keys), dictionary;
 * <li>run-end encoded: two children, ends and values; row {@code i} is row {@code i + runOffset()} of the runs.
 * </ul>
 *
 * <p>Read with {@code get} and {@code getAtIndex} in loops over {@code long} indexes. If another process truncates the
 * file, such reads throw {@code InternalError}; {@link #isValid}, {@link DoubleColumn} and {@link LongColumn} throw
 * {@link ArrowwoodException.FileChanged}. Don't use the Vector API over a segment of a mapped file: the JVM
 * doesn't survive a truncation in compiled vector code. {@link #copyOfValues} is safe, and so are the reductions of
 * {@link Column}.
 */
public final class Chunk {
    static final long SIZE = 160;

    /**
     * The number of times a read calls itself, so that compiled code keeps a frame for it. The JVM may not report a
     * fault before a frame returns or a loop repeats, and a read inlined into a caller's loop can't catch it by then.
     * Compilers inline only one level of a recursion.
     */
    static final int RECURSION_DEPTH = 2;

    private static final long FIRST_ROW = 0;
    private static final long ROWS = 8;
    private static final long NULL_COUNT = 16;
    private static final long VALIDITY = 24;
    private static final long VALUES = 40;
    private static final long OFFSETS = 56;
    private static final long SIZES = 72;
    private static final long DATA = 88;
    private static final long VALIDITY_BIT = 104;
    private static final long VALUES_BIT = 108;
    private static final long RUN_OFFSET = 112;
    private static final long VARIADIC = 120;
    private static final long VARIADIC_COUNT = 128;
    private static final long CHILDREN = 136;
    private static final long CHILD_COUNT = 144;
    private static final long DICTIONARY = 152;

    private final MemorySegment struct;
    private final Arena arena;
    private final MemorySegment validity;

    private Chunk(MemorySegment struct, Arena arena) {
        this.struct = struct;
        this.arena = arena;
        this.validity = buffer(VALIDITY);
    }

    /** Returns an array of {@code count} chunk structs. */
    static MemorySegment table(MemorySegment first, long count, Arena arena) {
        return first.reinterpret(count * SIZE, arena, null);
    }

    static Chunk at(MemorySegment table, long index, Arena arena) {
        return new Chunk(table.asSlice(index * SIZE, SIZE), arena);
    }

    private MemorySegment buffer(long offset) {
        return segment(struct.get(JAVA_LONG, offset), struct.get(JAVA_LONG, offset + 8));
    }

    private MemorySegment segment(long address, long size) {
        return MemorySegment.ofAddress(address).reinterpret(size, arena, null).asReadOnly();
    }

    /**
     * Returns the index of the first row in the column.
     *
     * @return the index; 0 of children and dictionaries
     */
    public long firstRow() {
        return struct.get(JAVA_LONG, FIRST_ROW);
    }

    /**
     * Returns the number of rows.
     *
     * @return the number
     */
    public long rowCount() {
        return struct.get(JAVA_LONG, ROWS);
    }

    /**
     * Returns the number of nulls by the validity bitmap; without {@link ChunkOption#CHECKED}, as the file declares it.
     *
     * @return the number
     */
    public long nullCount() {
        return struct.get(JAVA_LONG, NULL_COUNT);
    }

    /**
     * Returns whether a row is valid by the bitmap.
     *
     * @param row its index in the chunk
     * @return false if the value is null
     * @throws IndexOutOfBoundsException if there is no such row
     * @throws ArrowwoodException.FileChanged if the file was truncated
     */
    public boolean isValid(long row) {
        Objects.checkIndex(row, rowCount());
        if (validity.byteSize() == 0) {
            return true;
        }
        long bit = row + struct.get(JAVA_INT, VALIDITY_BIT);
        byte flags;
        try {
            flags = read(validity, bit >> 3, RECURSION_DEPTH);
        } catch (InternalError e) {
            throw changed(validity.asSlice(bit >> 3, 1), e);
        }
        return (flags >> (bit & 7) & 1) != 0;
    }

    private static byte read(MemorySegment bytes, long index, int depth) {
        return depth > 0 ? read(bytes, index, depth - 1) : bytes.get(JAVA_BYTE, index);
    }

    /** Returns the failure of a read that faulted: the library repeats the read, and names the file and cause. */
    private static RuntimeException changed(MemorySegment bytes, InternalError cause) {
        RuntimeException failure;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment copy = arena.allocate(bytes.byteSize());
            Native.run(call -> call.check((int) Native.COPY.invokeExact(copy, bytes, bytes.byteSize(), call.error)));
            failure = changed();
        } catch (ArrowwoodException.FileChanged e) {
            failure = e;
        }
        failure.addSuppressed(cause);
        return failure;
    }

    /** Returns the failure of a read that faulted and succeeds when repeated. */
    static RuntimeException changed() {
        return new ArrowwoodException.FileChanged(
                "a file could not be read for a moment: it was truncated, or its disk fails; open it again");
    }

    /**
     * Returns the validity bitmap, 1 for valid, from bit {@link #validityBit} on.
     *
     * @return the bitmap, or empty if all rows are valid
     */
    public Optional<MemorySegment> validity() {
        return validity.address() == 0 ? Optional.empty() : Optional.of(validity);
    }

    /**
     * Returns the bit of the first row in the validity bitmap; bits are numbered from the least significant.
     *
     * @return 0 to 7
     */
    public int validityBit() {
        return struct.get(JAVA_INT, VALIDITY_BIT);
    }

    /**
     * Returns the values: numbers, bits, views, type ids or keys.
     *
     * @return the buffer, of size 0 if the type has none
     */
    public MemorySegment values() {
        return buffer(VALUES);
    }

    /**
     * Returns the bit of the first row in {@link #values} of booleans.
     *
     * @return 0 to 7
     */
    public int valuesBit() {
        return struct.get(JAVA_INT, VALUES_BIT);
    }

    /**
     * Returns the offsets, of 32 or 64 bits.
     *
     * @return the buffer, of size 0 if the type has none
     */
    public MemorySegment offsets() {
        return buffer(OFFSETS);
    }

    /**
     * Returns the sizes of list views.
     *
     * @return the buffer, of size 0 if the type has none
     */
    public MemorySegment sizes() {
        return buffer(SIZES);
    }

    /**
     * Returns the bytes of text and binary, which {@link #offsets} index.
     *
     * @return the buffer, of size 0 if the type has none
     */
    public MemorySegment data() {
        return buffer(DATA);
    }

    /**
     * Returns the run of the first row, in a column of runs.
     *
     * @return the number of rows of the runs before it
     */
    public long runOffset() {
        return struct.get(JAVA_LONG, RUN_OFFSET);
    }

    /**
     * Returns the buffers that views refer to.
     *
     * @return an unmodifiable list
     */
    public List<MemorySegment> variadic() {
        long count = struct.get(JAVA_LONG, VARIADIC_COUNT);
        MemorySegment table = segment(struct.get(JAVA_LONG, VARIADIC), count * 16);
        return LongStream.range(0, count)
                .mapToObj(i -> segment(table.get(JAVA_LONG, 16 * i), table.get(JAVA_LONG, 16 * i + 8)))
                .toList();
    }

    /**
     * Returns the chunks of nested values.
     *
     * @return an unmodifiable list
     */
    public List<Chunk> children() {
        long count = struct.get(JAVA_LONG, CHILD_COUNT);
        MemorySegment table = table(struct.get(ADDRESS, CHILDREN), count, arena);
        return LongStream.range(0, count).mapToObj(i -> at(table, i, arena)).toList();
    }

    /**
     * Returns the values that keys refer to.
     *
     * @return the chunk, or empty if the type is no dictionary
     */
    public Optional<Chunk> dictionary() {
        MemorySegment dictionary = struct.get(ADDRESS, DICTIONARY);
        return dictionary.address() == 0 ? Optional.empty() : Optional.of(at(table(dictionary, 1, arena), 0, arena));
    }

    /**
     * Copies the values into memory that no other process can change.
     *
     * @param arena the arena of the copy
     * @return the copy, aligned to 8 bytes
     * @throws ArrowwoodException.FileChanged if the file was truncated
     */
    public MemorySegment copyOfValues(Arena arena) {
        MemorySegment values = values();
        MemorySegment copy = arena.allocate(values.byteSize(), 8);
        Native.run(call -> call.check((int) Native.COPY.invokeExact(copy, values, values.byteSize(), call.error)));
        return copy;
    }
}
