package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.arrowwood.internal.Internals;
import dev.arrowwood.internal.Native;
import dev.arrowwood.internal.SchemaReader;
import dev.arrowwood.internal.Struct;
import dev.arrowwood.internal.Values;
import dev.arrowwood.types.Type;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.ToIntFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Compares layouts of structs and codes of enums with {@code arrowwood.h}: no compiler does. */
class StructTest {
    /** Captures tag and body of an enum. */
    private static final Pattern ENUM = Pattern.compile("enum (\\w+) \\{(.*?)\\};", Pattern.DOTALL);

    /** Captures name and value of a constant. */
    private static final Pattern CONSTANT = Pattern.compile("(\\w+) = (\\d+)");

    /** Captures tag and body of a struct, whose closing brace begins a line. */
    private static final Pattern STRUCT = Pattern.compile("struct (\\w+) \\{\n(.*?)\n\\}", Pattern.DOTALL);

    /** Captures type and name of a struct's own member, or the name of a function pointer. */
    private static final Pattern MEMBER =
            Pattern.compile("^  (?! )(?:([^;{}()]*[ *])(\\w+)|\\w+ \\(\\*(\\w+)\\)\\(.*\\));", Pattern.MULTILINE);

    /** The size of the union in {@code arrowwood_value}: four words. */
    private static final long UNION_SIZE = 32;

    private static String header;

    @BeforeAll
    static void readHeader() throws IOException {
        Path root = Path.of(System.getProperty("arrowwood.docs")).getParent();
        String text = Files.readString(root.resolve("bindings/c/include/arrowwood.h"));
        header = Pattern.compile("/\\*.*?\\*/", Pattern.DOTALL).matcher(text).replaceAll("");
    }

    // ---- enums ----

    /** Returns the constants of an enum of the header, without a prefix. */
    private static Map<String, Integer> constants(String tag, String prefix) {
        Matcher declaration = ENUM.matcher(header);
        while (declaration.find()) {
            if (declaration.group(1).equals(tag)) {
                return CONSTANT.matcher(declaration.group(2))
                        .results()
                        .collect(Collectors.toMap(
                                constant -> withoutPrefix(constant.group(1), prefix),
                                constant -> Integer.valueOf(constant.group(2))));
            }
        }
        throw new AssertionError("the header has no enum " + tag);
    }

    private static String withoutPrefix(String name, String prefix) {
        assertTrue(name.startsWith(prefix), name);
        return name.substring(prefix.length());
    }

    private static <E extends Enum<E>> Map<String, Integer> codes(Class<E> type, ToIntFunction<E> code) {
        return Arrays.stream(type.getEnumConstants()).collect(Collectors.toMap(Enum::name, code::applyAsInt));
    }

    /** Returns a map with further entries. */
    private static Map<String, Integer> with(Map<String, Integer> codes, Map<String, Integer> more) {
        Map<String, Integer> all = new HashMap<>(codes);
        all.putAll(more);
        return all;
    }

    @Test
    void codesOfEnumsAreThoseOfTheHeader() {
        assertEquals(
                constants("arrowwood_format", "ARROWWOOD_FORMAT_"),
                codes(WriteOptions.Format.class, format -> format.code));
        assertEquals(
                constants("arrowwood_compression", "ARROWWOOD_COMPRESSION_"),
                codes(WriteOptions.Compression.class, compression -> compression.code));
        assertEquals(
                constants("arrowwood_sync", "ARROWWOOD_SYNC_"), codes(WriterOptions.Sync.class, sync -> sync.code));
        assertEquals(
                constants("arrowwood_late", "ARROWWOOD_LATE_"),
                with(codes(WriterOptions.Late.class, late -> late.code), Map.of("AS_CREATED", 0)));
        assertEquals(constants("arrowwood_operator", "ARROWWOOD_"), codes(Condition.Operator.class, Internals::code));
        assertEquals(constants("arrowwood_unit", "ARROWWOOD_UNIT_"), codes(Type.Unit.class, Internals::code));
        assertEquals(
                constants("arrowwood_error_code", "ARROWWOOD_ERROR_"),
                with(codes(ArrowwoodException.Code.class, code -> code.number), Map.of("NONE", Native.SUCCESS)));
        assertEquals(
                constants("arrowwood_function", "ARROWWOOD_"),
                with(
                        codes(Aggregate.Function.class, function -> function.code),
                        Map.of("NULL_COUNT", Column.NULL_COUNT, "ANY", Column.ANY, "ALL", Column.ALL)));
        assertEquals(
                constants("arrowwood_flags", "ARROWWOOD_"),
                Map.of("STRUCTURE_ONLY", Column.STRUCTURE_ONLY, "ALIGNED", Column.ALIGNED));
    }

    @Test
    void kindsOfValuesAreThoseOfTheHeader() throws Exception {
        Map<String, Integer> kinds = constants("arrowwood_value_kind", "ARROWWOOD_KIND_");
        assertEquals(Internals.kind("UUID_BYTES"), kinds.remove("UUID"));
        for (Map.Entry<String, Integer> kind : kinds.entrySet()) {
            assertEquals(kind.getValue(), Internals.kind(kind.getKey()), kind.getKey());
        }
    }

    @Test
    void unitsAndErrorsAreFoundByTheirCodes() {
        for (Type.Unit unit : Type.Unit.values()) {
            assertEquals(unit, Internals.unit(Internals.code(unit)));
        }
        for (ArrowwoodException.Code code : ArrowwoodException.Code.values()) {
            assertEquals(code, ArrowwoodException.Code.of(code.number));
        }
        assertEquals(ArrowwoodException.Code.INTERNAL, ArrowwoodException.Code.of(1_000));
        assertThrows(ArrowwoodException.Internal.class, () -> Internals.unit(4));
    }

    // ---- structs ----

    /** A member: its name, and its size in bytes. */
    private record HeaderMember(String name, long size) {}

    /** Returns the members of a struct of the header, in order. */
    private static List<HeaderMember> members(String tag) {
        Matcher declaration = STRUCT.matcher(header);
        while (declaration.find()) {
            if (declaration.group(1).equals(tag)) {
                return MEMBER.matcher(declaration.group(2) + "\n")
                        .results()
                        .map(member -> member.group(3) == null
                                ? new HeaderMember(
                                        member.group(2), sizeOf(member.group(1).strip()))
                                : new HeaderMember(member.group(3), Long.BYTES))
                        .toList();
            }
        }
        throw new AssertionError("the header has no struct " + tag);
    }

    private static long sizeOf(String type) {
        if (type.endsWith("*")) {
            return Long.BYTES;
        }
        return switch (type) {
            case "int32_t", "uint32_t" -> Integer.BYTES;
            case "int64_t", "uint64_t", "size_t" -> Long.BYTES;
            case "arrowwood_buffer" -> Chunk.BUFFER.size();
            default -> throw new AssertionError("a member of an unknown type: " + type);
        };
    }

    private static List<HeaderMember> members(Struct struct) {
        List<HeaderMember> members = new ArrayList<>();
        for (MemoryLayout member : struct.layout().memberLayouts()) {
            members.add(new HeaderMember(member.name().orElseThrow(), member.byteSize()));
        }
        return members;
    }

    @Test
    void membersOfStructsAreThoseOfTheHeader() {
        Map<String, Struct> structs = new TreeMap<>(Map.of(
                "ArrowSchema", SchemaReader.STRUCT,
                "arrowwood_error", Native.ERROR,
                "arrowwood_open_options", ReadOption.STRUCT,
                "arrowwood_csv_options", Arrowwood.CSV_OPTIONS,
                "arrowwood_write_options", WriteOptions.STRUCT,
                "arrowwood_buffer", Chunk.BUFFER,
                "arrowwood_chunk", Chunk.STRUCT,
                "arrowwood_aggregate", Aggregate.STRUCT,
                "arrowwood_writer_options", WriterOptions.STRUCT));
        structs.putAll(Map.of(
                "arrowwood_position", TableWriter.POSITION,
                "arrowwood_commit_options", TableWriter.COMMIT_OPTIONS,
                "arrowwood_writer_state", TableWriter.STATE,
                "arrowwood_report", Report.STRUCT,
                "arrowwood_stat", TableStat.STRUCT));
        structs.forEach((tag, struct) -> assertEquals(members(tag), members(struct), tag));
    }

    @Test
    void valueHasTheMembersOfTheHeader() {
        List<HeaderMember> members = new ArrayList<>(members("arrowwood_value"));
        members.add(new HeaderMember("as", UNION_SIZE));
        assertEquals(members, members(Values.VALUE));
    }

    @Test
    void membersAreSetAndReadByNameAndTypeOnly() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment options = WriteOptions.STRUCT.allocateWithSize(arena);
            assertEquals(WriteOptions.STRUCT.size(), WriteOptions.STRUCT.getLong(options, "size"));
            WriteOptions.STRUCT.setInt(options, "compression", 2);
            assertEquals(2, WriteOptions.STRUCT.getInt(options, "compression"));
            assertEquals(0, WriteOptions.STRUCT.getInt(options, "format"));
            assertThrows(ClassCastException.class, () -> WriteOptions.STRUCT.setInt(options, "max_rows", 1));
            assertThrows(IllegalArgumentException.class, () -> WriteOptions.STRUCT.getInt(options, "level"));
        }
    }

    // ---- options ----

    @Test
    void missingOptionsAreRefusedAtOnce() {
        assertThrows(NullPointerException.class, () -> WriteOptions.FILE.compressed(null));
        assertThrows(NullPointerException.class, () -> new WriteOptions(null, WriteOptions.Compression.NONE, 0));
        assertThrows(NullPointerException.class, () -> WriterOptions.DEFAULT.sync(null));
        assertThrows(NullPointerException.class, () -> Aggregate.sum("x").as(null));
        assertThrows(NullPointerException.class, () -> new Arrowwood.CsvOptions(Optional.empty(), null, ','));
        assertThrows(NullPointerException.class, () -> new Condition.Compare("x", null, 1));
    }
}
