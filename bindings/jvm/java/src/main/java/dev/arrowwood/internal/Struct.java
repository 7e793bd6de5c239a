package dev.arrowwood.internal;

import java.lang.foreign.AddressLayout;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * The layout of a struct of {@code arrowwood.h}, or of Arrow's C data interface.
 *
 * <p>Members have the header's names and order; {@code StructTest} compares them with the header. Code that runs once a
 * call names the member: {@code STRUCT.setInt(options, "format", code)}. Code that runs for each cell or row keeps the
 * {@link #offset} of a member in a constant.
 */
public final class Struct {
    /** The first member of structs that may grow: their size, by which the library tells their version. */
    private static final String SIZE_MEMBER = "size";

    private final StructLayout layout;
    /** The struct's own members by name: looking them up in the layout takes longer than a short call. */
    private final Map<String, Slot> slots = new HashMap<>();

    /** A member: its layout, and its offset in bytes. */
    private record Slot(MemoryLayout layout, long offset) {}

    /**
     * Creates a layout of named members.
     *
     * @throws IllegalArgumentException if a member isn't aligned where the previous ones end, as C would align it
     */
    public Struct(MemoryLayout... members) {
        this.layout = MemoryLayout.structLayout(members);
        for (MemoryLayout member : members) {
            String name = member.name().orElseThrow();
            slots.put(name, new Slot(member, offset(name)));
        }
    }

    /** Returns the layout, to be a member of another struct. */
    public StructLayout layout() {
        return layout;
    }

    /** Returns the size in bytes. */
    public long size() {
        return layout.byteSize();
    }

    /** Returns the offset in bytes of a member, or of a member within members. */
    public long offset(String... path) {
        return layout.byteOffset(
                Arrays.stream(path).map(PathElement::groupElement).toArray(PathElement[]::new));
    }

    /** Allocates a zeroed struct. */
    public MemorySegment allocate(Arena arena) {
        return arena.allocate(layout);
    }

    /** Allocates a struct that begins with its size: the size is set, the other members are zero. */
    public MemorySegment allocateWithSize(Arena arena) {
        MemorySegment struct = arena.allocate(layout);
        setLong(struct, SIZE_MEMBER, size());
        return struct;
    }

    /** Allocates an array of zeroed structs, which has an address even if the count is 0. */
    public MemorySegment allocateArray(Arena arena, long count) {
        return arena.allocate(layout, Math.max(1, count));
    }

    /** Returns an element of an array of structs. */
    public MemorySegment element(MemorySegment array, long index) {
        return array.asSlice(index * layout.byteSize(), layout.byteSize());
    }

    public int getInt(MemorySegment struct, String name) {
        Slot slot = slot(name);
        return struct.get((ValueLayout.OfInt) slot.layout, slot.offset);
    }

    public long getLong(MemorySegment struct, String name) {
        Slot slot = slot(name);
        return struct.get((ValueLayout.OfLong) slot.layout, slot.offset);
    }

    public MemorySegment getAddress(MemorySegment struct, String name) {
        Slot slot = slot(name);
        return struct.get((AddressLayout) slot.layout, slot.offset);
    }

    public void setInt(MemorySegment struct, String name, int value) {
        Slot slot = slot(name);
        struct.set((ValueLayout.OfInt) slot.layout, slot.offset, value);
    }

    public void setLong(MemorySegment struct, String name, long value) {
        Slot slot = slot(name);
        struct.set((ValueLayout.OfLong) slot.layout, slot.offset, value);
    }

    public void setAddress(MemorySegment struct, String name, MemorySegment value) {
        Slot slot = slot(name);
        struct.set((AddressLayout) slot.layout, slot.offset, value);
    }

    /** Returns a member; its layout is cast by the caller, so that it can't be accessed as another type. */
    private Slot slot(String name) {
        Slot slot = slots.get(name);
        if (slot == null) {
            throw new IllegalArgumentException("no member " + name + " in " + layout);
        }
        return slot;
    }
}
