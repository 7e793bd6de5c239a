package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;

import dev.arrowwood.internal.Fields;
import dev.arrowwood.internal.Native;
import dev.arrowwood.internal.Records;
import dev.arrowwood.internal.SchemaReader;
import dev.arrowwood.types.Field;
import dev.arrowwood.types.Type;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.ref.Reference;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** The names and types of columns. Immutable. */
public final class Schema {
    /** Calls a function with a struct: the first argument is the function's address. */
    private static final MethodHandle RELEASE =
            Linker.nativeLinker().downcallHandle(FunctionDescriptor.ofVoid(ADDRESS));

    private final List<Field> fields;
    /** The {@code struct ArrowSchema}, which the collector releases. */
    private final MemorySegment struct;

    private Schema(MemorySegment struct) {
        this.struct = struct;
        try {
            this.fields = SchemaReader.columns(struct);
        } finally {
            // Names and children are read by address, which doesn't keep the struct alive.
            Reference.reachabilityFence(struct);
        }
    }

    /** Fills a {@code struct ArrowSchema}. */
    interface Filler {
        int fill(Native.Call call, MemorySegment struct) throws Throwable;
    }

    /** Returns the schema that a function of the library exports. */
    static Schema of(Filler filler) {
        return Native.call(call -> {
            MemorySegment struct = SchemaReader.STRUCT.allocate(Arena.ofAuto());
            call.check(filler.fill(call, struct));
            // The lambda captures the struct, and so keeps its memory until the release.
            return new Schema(struct.reinterpret(Arena.ofAuto(), unused -> release(struct)));
        });
    }

    private static void release(MemorySegment struct) {
        try {
            RELEASE.invokeExact(SchemaReader.STRUCT.getAddress(struct, "release"), struct);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /**
     * Parses a schema such as {@code ts: timestamp[us] not null, symbol: category, price: float64}. Types are named as
     * {@link Type} names them; {@code category} means {@code dictionary<int32, utf8>}.
     *
     * @param text the text
     * @return the schema
     * @throws IllegalArgumentException with the problem and its position
     */
    public static Schema parse(String text) {
        return of((call, struct) -> (int) Native.SCHEMA_PARSE.invokeExact(call.text(text), struct, call.error));
    }

    /**
     * Creates a schema of columns.
     *
     * @param fields the columns
     * @return the schema
     * @throws IllegalArgumentException if two have the same name, or a type can't be written as text
     */
    public static Schema of(Field... fields) {
        return parse(Arrays.stream(fields).map(Field::toString).collect(Collectors.joining(", ")));
    }

    /**
     * Derives a schema from a record class: a column for each component. {@code String} becomes text, {@code Instant} a
     * timestamp in microseconds and UTC; primitives become columns without nulls.
     *
     * @param type the record class
     * @return the schema
     * @throws IllegalArgumentException if a component's class has no matching type
     */
    public static Schema of(Class<? extends Record> type) {
        return of(Records.fields(type));
    }

    /**
     * Returns the columns.
     *
     * @return an unmodifiable list
     */
    public List<Field> fields() {
        return fields;
    }

    /**
     * Returns the names of the columns.
     *
     * @return an unmodifiable list
     */
    public List<String> names() {
        return fields.stream().map(Field::name).toList();
    }

    /**
     * Returns a column by its name.
     *
     * @param name the name
     * @return the column
     * @throws IllegalArgumentException if no column or several columns have the name
     */
    public Field field(String name) {
        return fields.get(index(name));
    }

    /**
     * Returns the index of a column, from 0.
     *
     * @param name its name
     * @return the index
     * @throws IllegalArgumentException if no column or several columns have the name
     */
    public int index(String name) {
        return Fields.index(fields, name);
    }

    /** Returns the {@code struct ArrowSchema}, for calls. */
    MemorySegment struct() {
        return struct;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Schema schema && schema.fields.equals(fields);
    }

    @Override
    public int hashCode() {
        return fields.hashCode();
    }

    /** Returns the schema as {@link #parse} reads it. */
    @Override
    public String toString() {
        return fields.stream().map(Field::toString).collect(Collectors.joining(", "));
    }
}
