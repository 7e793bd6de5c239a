package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.internal.Native;
import dev.arrowwood.internal.Struct;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
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
    /** {@code arrowwood_buffer}. */
    static final Struct BUFFER = new Struct(ADDRESS.withName("data"), JAVA_LONG.withName("size"));

    /** {@code arrowwood_chunk}. */
    static final Struct STRUCT = new Struct(
            JAVA_LONG.withName("first_row"),
            JAVA_LONG.withName("rows"),
            JAVA_LONG.withName("null_count"),
            buffer("validity"),
            buffer("values"),
            buffer("offsets"),
            buffer("sizes"),
            buffer("data"),
            JAVA_INT.withName("validity_bit"),
            JAVA_INT.withName("values_bit"),
            JAVA_LONG.withName("run_offset"),
            ADDRESS.withName("variadic"),
            JAVA_LONG.withName("variadic_count"),
            ADDRESS.withName("children"),
            JAVA_LONG.withName("child_count"),
            ADDRESS.withName("dictionary"));

    private static final long FIRST_ROW = STRUCT.offset("first_row");
    private static final long ROWS = STRUCT.offset("rows");
    private static final long NULL_COUNT = STRUCT.offset("null_count");
    private static final long VALIDITY = STRUCT.offset("validity");
    private static final long VALUES = STRUCT.offset("values");
    private static final long OFFSETS = STRUCT.offset("offsets");
    private static final long SIZES = STRUCT.offset("sizes");
    private static final long DATA = STRUCT.offset("data");
    private static final long VALIDITY_BIT = STRUCT.offset("validity_bit");
    private static final long VALUES_BIT = STRUCT.offset("values_bit");
    private static final long RUN_OFFSET = STRUCT.offset("run_offset");
    private static final long VARIADIC = STRUCT.offset("variadic");
    private static final long VARIADIC_COUNT = STRUCT.offset("variadic_count");
    private static final long CHILDREN = STRUCT.offset("children");
    private static final long CHILD_COUNT = STRUCT.offset("child_count");
    private static final long DICTIONARY = STRUCT.offset("dictionary");

    private static final long BUFFER_DATA = BUFFER.offset("data");
    private static final long BUFFER_SIZE = BUFFER.offset("size");

    /** The alignment of copies in bytes: enough for each of Java's layouts. */
    private static final long ALIGNMENT = 8;

    /**
     * The number of times a read calls itself, so that compiled code keeps a frame for it. The JVM may not report a
     * fault before a frame returns or a loop repeats, and a read inlined into a caller's loop can't catch it by then.
     * Compilers inline only one level of a recursion.
     */
    static final int RECURSION_DEPTH = 2;

    private final MemorySegment struct;
    private final Arena arena;
    private final MemorySegment validity;

    private Chunk(MemorySegment struct, Arena arena) {
        this.struct = struct;
        this.arena = arena;
        this.validity = buffer(VALIDITY);
    }

    private static MemoryLayout buffer(String name) {
        return BUFFER.layout().withName(name);
    }

    /** Returns an array of {@code count} chunk structs, which lives as long as {@code arena}. */
    static MemorySegment table(MemorySegment first, long count, Arena arena) {
        return first.reinterpret(count * STRUCT.size(), arena, null);
    }

    /** Returns a chunk of such an array. */
    static Chunk at(MemorySegment table, long index, Arena arena) {
        return new Chunk(STRUCT.element(table, index), arena);
    }

    /** Returns the memory of the buffer whose struct is at an offset of this chunk's. */
    private MemorySegment buffer(long offset) {
        return segment(struct, offset);
    }

    /** Returns the memory that an {@code arrowwood_buffer} at an offset of {@code memory} describes. */
    private MemorySegment segment(MemorySegment memory, long offset) {
        return segment(memory.get(JAVA_LONG, offset + BUFFER_DATA), memory.get(JAVA_LONG, offset + BUFFER_SIZE));
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
        long index = bit >> 3;
        byte flags;
        try {
            flags = read(validity, index, RECURSION_DEPTH);
        } catch (InternalError e) {
            throw changed(validity.asSlice(index, 1), e);
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
            failure = Native.transientFault();
        } catch (ArrowwoodException.FileChanged e) {
            failure = e;
        }
        failure.addSuppressed(cause);
        return failure;
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
        MemorySegment buffers = segment(struct.get(JAVA_LONG, VARIADIC), count * BUFFER.size());
        return LongStream.range(0, count)
                .mapToObj(i -> segment(buffers, i * BUFFER.size()))
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
        MemorySegment copy = arena.allocate(values.byteSize(), ALIGNMENT);
        Native.run(call -> call.check((int) Native.COPY.invokeExact(copy, values, values.byteSize(), call.error)));
        return copy;
    }
}
