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

/** Cells in the spelling that examples/samples/main.rs defines. */
final class Spelling {
    private final ArrowReader reader;

    Spelling(ArrowReader reader) {
        this.reader = reader;
    }

    Object of(ValueVector vector, int row) throws Exception {
        // A union has no validity, its members have.
        if (vector instanceof UnionVector || vector instanceof DenseUnionVector) {
            return nested(vector, row);
        }
        if (vector instanceof NullVector || vector.isNull(row)) {
            return null;
        }
        DictionaryEncoding encoding = vector.getField().getDictionary();
        if (encoding != null) {
            Dictionary dictionary = reader.lookup(encoding.getId());
            return of(dictionary.getVector(), (int) ((BaseIntVector) vector).getValueAsLong(row));
        }
        Object plain = plain(vector, row);
        return plain != null ? plain : nested(vector, row);
    }

    private Object plain(ValueVector vector, int row) {
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
        return temporal(vector, row);
    }

    private static Object temporal(ValueVector vector, int row) {
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

    private Object nested(ValueVector vector, int row) throws Exception {
        if (vector instanceof MapVector map) {
            StructVector entries = (StructVector) map.getDataVector();
            return items(entries, map.getElementStartIndex(row), map.getElementEndIndex(row), true);
        }
        if (vector instanceof LargeListVector list) {
            return items(list.getDataVector(), list.getElementStartIndex(row), list.getElementEndIndex(row), false);
        }
        // What this version calls a list view's end is its size.
        if (vector instanceof ListViewVector list) {
            long start = list.getOffsetBuffer().getInt(4L * row);
            return items(
                    list.getDataVector(), start, start + list.getSizeBuffer().getInt(4L * row), false);
        }
        if (vector instanceof LargeListViewVector list) {
            long start = list.getOffsetBuffer().getLong(8L * row);
            return items(
                    list.getDataVector(), start, start + list.getSizeBuffer().getLong(8L * row), false);
        }
        if (vector instanceof BaseListVector list) {
            ValueVector values = ((FieldVector) list).getChildrenFromFields().get(0);
            return items(values, list.getElementStartIndex(row), list.getElementEndIndex(row), false);
        }
        if (vector instanceof StructVector struct) return members(struct, row);
        if (vector instanceof UnionVector union) return member(union.getVector(row), row);
        if (vector instanceof DenseUnionVector union) {
            return member(union.getVectorByType(union.getTypeId(row)), union.getOffset(row));
        }
        if (vector instanceof RunEndEncodedVector runs) {
            return of(runs.getValuesVector(), runs.getPhysicalIndex(row));
        }
        throw new UnsupportedOperationException(vector.getClass() + ": not known to Spelling.java");
    }

    private List<Object> items(ValueVector values, long start, long end, boolean arePairs) throws Exception {
        List<Object> items = new ArrayList<>();
        for (int row = (int) start; row < end; row++) {
            items.add(
                    arePairs
                            ? new ArrayList<>(
                                    members((StructVector) values, row).values())
                            : of(values, row));
        }
        return items;
    }

    private Map<String, Object> members(StructVector struct, int row) throws Exception {
        Map<String, Object> members = new LinkedHashMap<>();
        for (FieldVector child : struct.getChildrenFromFields()) {
            members.put(child.getName(), of(child, row));
        }
        return members;
    }

    private Map<String, Object> member(ValueVector child, int row) throws Exception {
        Map<String, Object> member = new LinkedHashMap<>();
        member.put(child.getName(), of(child, row));
        return member;
    }
}
