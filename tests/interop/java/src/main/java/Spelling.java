import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.arrow.vector.*;
import org.apache.arrow.vector.complex.*;
import org.apache.arrow.vector.dictionary.Dictionary;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.DictionaryEncoding;
import org.apache.arrow.vector.util.Text;

/** Converts cells to the spelling that examples/samples/main.rs defines. */
final class Spelling {
    private final ArrowReader reader;

    Spelling(ArrowReader reader) {
        this.reader = reader;
    }

    Object spell(ValueVector vector, int row) throws Exception {
        // Unions have no validity of their own; their members have.
        if (vector instanceof UnionVector || vector instanceof DenseUnionVector) {
            return spellNested(vector, row);
        }
        if (vector instanceof NullVector || vector.isNull(row)) {
            return null;
        }
        DictionaryEncoding encoding = vector.getField().getDictionary();
        if (encoding != null) {
            Dictionary dictionary = reader.lookup(encoding.getId());
            return spell(dictionary.getVector(), (int) ((BaseIntVector) vector).getValueAsLong(row));
        }
        Object primitive = spellPrimitive(vector, row);
        return primitive != null ? primitive : spellNested(vector, row);
    }

    private Object spellPrimitive(ValueVector vector, int row) {
        if (vector instanceof BitVector bits) return bits.get(row) != 0;
        if (vector instanceof UInt2Vector ints) return Integer.toString(ints.get(row));
        if (vector instanceof UInt4Vector ints) return Integer.toUnsignedString(ints.get(row));
        if (vector instanceof UInt8Vector ints) return Long.toUnsignedString(ints.get(row));
        if (vector instanceof UInt1Vector ints) return Integer.toString(Byte.toUnsignedInt(ints.get(row)));
        if (vector instanceof BaseIntVector ints) return Long.toString(ints.getValueAsLong(row));
        if (vector instanceof FloatingPointVector floats) return floats.getValueAsDouble(row);
        if (vector.getObject(row) instanceof Text text) return text.toString();
        if (vector.getObject(row) instanceof byte[] bytes)
            return "0x" + HexFormat.of().formatHex(bytes);
        if (vector.getObject(row) instanceof BigDecimal number) return number.unscaledValue() + "e-" + number.scale();
        return spellTemporal(vector, row);
    }

    private static Object spellTemporal(ValueVector vector, int row) {
        ArrowType type = vector.getField().getType();
        if (vector instanceof DateDayVector days) return "date " + days.get(row);
        if (vector instanceof DateMilliVector millis) return "date " + millis.get(row) / 86_400_000;
        if (vector instanceof TimeSecVector times) return "time " + times.get(row) + "s";
        if (vector instanceof TimeMilliVector times) return "time " + times.get(row) + "ms";
        if (vector instanceof TimeMicroVector times) return "time " + times.get(row) + "us";
        if (vector instanceof TimeNanoVector times) return "time " + times.get(row) + "ns";
        if (vector instanceof TimeStampVector stamps) {
            ArrowType.Timestamp stamp = (ArrowType.Timestamp) type;
            String zone = stamp.getTimezone() == null ? "" : " " + stamp.getTimezone();
            return "timestamp " + stamps.get(row) + unit(stamp.getUnit()) + zone;
        }
        if (vector instanceof DurationVector durations) {
            long count = DurationVector.get(durations.getDataBuffer(), row);
            return "duration " + count + unit(((ArrowType.Duration) type).getUnit());
        }
        if (vector instanceof IntervalYearVector months) return "interval " + months.get(row) + " 0 0";
        if (vector instanceof IntervalDayVector) {
            var buffer = vector.getDataBuffer();
            long millis = IntervalDayVector.getMilliseconds(buffer, row);
            return "interval 0 " + IntervalDayVector.getDays(buffer, row) + " " + millis * 1_000_000;
        }
        if (vector instanceof IntervalMonthDayNanoVector) {
            var buffer = vector.getDataBuffer();
            return "interval " + IntervalMonthDayNanoVector.getMonths(buffer, row)
                    + " " + IntervalMonthDayNanoVector.getDays(buffer, row)
                    + " " + IntervalMonthDayNanoVector.getNanoseconds(buffer, row);
        }
        return null;
    }

    private static String unit(TimeUnit unit) {
        return switch (unit) {
            case SECOND -> "s";
            case MILLISECOND -> "ms";
            case MICROSECOND -> "us";
            case NANOSECOND -> "ns";
        };
    }

    private Object spellNested(ValueVector vector, int row) throws Exception {
        if (vector instanceof MapVector map) {
            StructVector entries = (StructVector) map.getDataVector();
            return spellItems(entries, map.getElementStartIndex(row), map.getElementEndIndex(row), true);
        }
        if (vector instanceof LargeListVector list) {
            return spellItems(
                    list.getDataVector(), list.getElementStartIndex(row), list.getElementEndIndex(row), false);
        }
        // The method getElementEndIndex of a list view returns its size in this version.
        if (vector instanceof ListViewVector list) {
            long start = list.getOffsetBuffer().getInt(4L * row);
            return spellItems(
                    list.getDataVector(), start, start + list.getSizeBuffer().getInt(4L * row), false);
        }
        if (vector instanceof LargeListViewVector list) {
            long start = list.getOffsetBuffer().getLong(8L * row);
            return spellItems(
                    list.getDataVector(), start, start + list.getSizeBuffer().getLong(8L * row), false);
        }
        if (vector instanceof BaseListVector list) {
            ValueVector values = ((FieldVector) list).getChildrenFromFields().get(0);
            return spellItems(values, list.getElementStartIndex(row), list.getElementEndIndex(row), false);
        }
        if (vector instanceof StructVector struct) return spellMembers(struct, row);
        if (vector instanceof UnionVector union) return spellMember(union.getVector(row), row);
        if (vector instanceof DenseUnionVector union) {
            return spellMember(union.getVectorByType(union.getTypeId(row)), union.getOffset(row));
        }
        if (vector instanceof RunEndEncodedVector runs) {
            return spell(runs.getValuesVector(), runs.getPhysicalIndex(row));
        }
        throw new UnsupportedOperationException(vector.getClass() + ": not known to Spelling.java");
    }

    private List<Object> spellItems(ValueVector values, long start, long end, boolean arePairs) throws Exception {
        List<Object> items = new ArrayList<>();
        for (int row = (int) start; row < end; row++) {
            items.add(
                    arePairs
                            ? new ArrayList<>(
                                    spellMembers((StructVector) values, row).values())
                            : spell(values, row));
        }
        return items;
    }

    private Map<String, Object> spellMembers(StructVector struct, int row) throws Exception {
        Map<String, Object> members = new LinkedHashMap<>();
        for (FieldVector child : struct.getChildrenFromFields()) {
            members.put(child.getName(), spell(child, row));
        }
        return members;
    }

    private Map<String, Object> spellMember(ValueVector child, int row) throws Exception {
        Map<String, Object> member = new LinkedHashMap<>();
        member.put(child.getName(), spell(child, row));
        return member;
    }
}
