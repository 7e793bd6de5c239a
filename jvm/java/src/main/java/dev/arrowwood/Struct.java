package dev.arrowwood;

import java.lang.foreign.AddressLayout;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * The layout of a struct of {@code arrowwood.h}, or of Arrow's C data interface.
 *
 * <p>Members have the header's names and order; {@code StructTest} compares them with the header. Code that runs once a
 * call names the member: {@code STRUCT.setInt(options, "format", code)}. Code that runs for each cell or row keeps the
 * {@link #offset} of a member in a constant.
 */
final class Struct {
    /** The first member of structs that may grow: their size, by which the library tells their version. */
    private static final String SIZE_MEMBER = "size";

    private final StructLayout layout;

    /**
     * Creates a layout of named members.
     *
     * @throws IllegalArgumentException if a member isn't aligned where the previous ones end, as C would align it
     */
    Struct(MemoryLayout... members) {
        this.layout = MemoryLayout.structLayout(members);
    }

    /** Returns the layout, to be a member of another struct. */
    StructLayout layout() {
        return layout;
    }

    /** Returns the size in bytes. */
    long size() {
        return layout.byteSize();
    }

    /** Returns the offset in bytes of a member, or of a member within members. */
    long offset(String... path) {
        return layout.byteOffset(
                Arrays.stream(path).map(PathElement::groupElement).toArray(PathElement[]::new));
    }

    /** Allocates a zeroed struct. */
    MemorySegment allocate(Arena arena) {
        return arena.allocate(layout);
    }

    /** Allocates a struct that begins with its size: the size is set, the other members are zero. */
    MemorySegment allocateWithSize(Arena arena) {
        MemorySegment struct = arena.allocate(layout);
        setLong(struct, SIZE_MEMBER, size());
        return struct;
    }

    /** Allocates an array of zeroed structs, which has an address even if the count is 0. */
    MemorySegment allocateArray(Arena arena, long count) {
        return arena.allocate(layout, Math.max(1, count));
    }

    /** Returns an element of an array of structs. */
    MemorySegment element(MemorySegment array, long index) {
        return array.asSlice(index * layout.byteSize(), layout.byteSize());
    }

    int getInt(MemorySegment struct, String member) {
        return struct.get(member(ValueLayout.OfInt.class, member), offset(member));
    }

    long getLong(MemorySegment struct, String member) {
        return struct.get(member(ValueLayout.OfLong.class, member), offset(member));
    }

    MemorySegment getAddress(MemorySegment struct, String member) {
        return struct.get(member(AddressLayout.class, member), offset(member));
    }

    void setInt(MemorySegment struct, String member, int value) {
        struct.set(member(ValueLayout.OfInt.class, member), offset(member), value);
    }

    void setLong(MemorySegment struct, String member, long value) {
        struct.set(member(ValueLayout.OfLong.class, member), offset(member), value);
    }

    void setAddress(MemorySegment struct, String member, MemorySegment value) {
        struct.set(member(AddressLayout.class, member), offset(member), value);
    }

    /** Returns the layout of a member; refuses to access it as another type. */
    private <L extends ValueLayout> L member(Class<L> type, String name) {
        return type.cast(layout.select(PathElement.groupElement(name)));
    }
}
