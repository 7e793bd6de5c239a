package dev.arrowwood.internal;

import dev.arrowwood.ArrowwoodException;
import dev.arrowwood.Row;
import dev.arrowwood.types.Field;
import dev.arrowwood.types.Type;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.UUID;

/** Converts rows of a dataset to records of a class, and back. */
public final class Records<R extends Record> {
    private static final ClassValue<Records<?>> CACHE = new ClassValue<>() {
        @Override
        protected Records<?> computeValue(Class<?> type) {
            return new Records<>(type.asSubclass(Record.class));
        }
    };

    private final Class<R> type;
    private final Component[] components;
    /** The canonical constructor, with an {@code Object[]} as its only parameter. */
    private final MethodHandle constructor;

    private record Component(String name, Class<?> type, java.lang.reflect.Type generic, MethodHandle accessor) {}

    private Records(Class<R> type) {
        this.type = type;
        RecordComponent[] declared = type.getRecordComponents();
        Class<?>[] types = Arrays.stream(declared).map(RecordComponent::getType).toArray(Class<?>[]::new);
        try {
            this.components = new Component[declared.length];
            for (int i = 0; i < declared.length; i++) {
                Method accessor = declared[i].getAccessor();
                accessor.setAccessible(true);
                MethodHandle handle = MethodHandles.lookup().unreflect(accessor);
                components[i] = new Component(declared[i].getName(), types[i], declared[i].getGenericType(), handle);
            }
            Constructor<R> canonical = type.getDeclaredConstructor(types);
            canonical.setAccessible(true);
            this.constructor = MethodHandles.lookup()
                    .unreflectConstructor(canonical)
                    .asSpreader(Object[].class, types.length)
                    .asType(MethodType.methodType(Object.class, Object[].class));
        } catch (ReflectiveOperationException | RuntimeException e) {
            throw new ArrowwoodException.InvalidArgument(type + " can't be read and made by Arrowwood: "
                    + e.getMessage() + "; make it public, or open its package to dev.arrowwood");
        }
    }

    @SuppressWarnings("unchecked")
    public static <R extends Record> Records<R> of(Class<R> type) {
        return (Records<R>) CACHE.get(type);
    }

    /** Returns the columns for a record class. */
    public static Field[] fields(Class<? extends Record> type) {
        return Arrays.stream(of(type).components).map(Records::field).toArray(Field[]::new);
    }

    private static Field field(Component component) {
        Class<?> type = component.type;
        boolean nullable = !type.isPrimitive();
        if (type == Optional.class
                && component.generic instanceof ParameterizedType generic
                && generic.getActualTypeArguments()[0] instanceof Class<?> inner) {
            type = inner;
        }
        Field field = new Field(component.name, arrowType(type, component.name));
        return nullable ? field : field.notNull();
    }

    private static Type arrowType(Class<?> type, String name) {
        Class<?> boxed = MethodType.methodType(type).wrap().returnType();
        if (boxed.isEnum()) {
            return new Type.Dictionary(Type.INT32, Type.UTF8, false);
        }
        return switch (boxed.getName()) {
            case "java.lang.Boolean" -> new Type.Bool();
            case "java.lang.Byte" -> new Type.Int(8, true);
            case "java.lang.Short" -> new Type.Int(16, true);
            case "java.lang.Integer", "java.util.OptionalInt" -> Type.INT32;
            case "java.lang.Long", "java.util.OptionalLong" -> Type.INT64;
            case "java.lang.Float" -> Type.FLOAT32;
            case "java.lang.Double", "java.util.OptionalDouble" -> Type.FLOAT64;
            case "java.lang.String" -> Type.UTF8;
            case "[B" -> new Type.Binary(Type.Layout.NORMAL);
            case "java.util.UUID" -> new Type.FixedBinary(Values.UUID_SIZE);
            case "java.time.Instant" -> new Type.Timestamp(Type.Unit.MICROSECOND, Optional.of("UTC"));
            case "java.time.LocalDateTime" -> new Type.Timestamp(Type.Unit.MICROSECOND, Optional.empty());
            case "java.time.LocalDate" -> new Type.Date(32);
            case "java.time.LocalTime" -> new Type.Time(Type.Unit.MICROSECOND);
            case "java.time.Duration" -> new Type.Duration(Type.Unit.MICROSECOND);
            default ->
                throw new ArrowwoodException.InvalidArgument("component '" + name + "' is a " + type.getName()
                        + ", which no type of Arrow stands for: give the schema with Schema.parse");
        };
    }

    // ---- rows to records ----

    /** Returns the index of each component's column. */
    public int[] columns(List<Field> fields) {
        return Arrays.stream(components)
                .mapToInt(component -> Fields.index(fields, component.name))
                .toArray();
    }

    public R read(List<Field> fields, Object[] cells) {
        return read(columns(fields), cells);
    }

    public R read(int[] columns, Object[] cells) {
        Object[] arguments = new Object[columns.length];
        for (int i = 0; i < columns.length; i++) {
            arguments[i] = argument(cells[columns[i]], components[i]);
        }
        try {
            return type.cast((Object) constructor.invokeExact(arguments));
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new ArrowwoodException.InvalidArgument("a " + type.getName() + " can't be made: " + e);
        }
    }

    private Object argument(Object cell, Component component) {
        try {
            Object argument = convert(cell, component.type, component.generic);
            if (argument != null || !component.type.isPrimitive()) {
                return argument;
            }
        } catch (ClassCastException | ArithmeticException e) {
            throw new ArrowwoodException.InvalidArgument("component '" + component.name + "' of " + type.getSimpleName()
                    + " is a " + component.type.getSimpleName() + ", which can't hold " + cell);
        }
        throw new ArrowwoodException.InvalidArgument("component '" + component.name + "' of " + type.getSimpleName()
                + " is a " + component.type + ", which can't hold null: make it an Optional, or its class");
    }

    private static Object convert(Object cell, Class<?> type, java.lang.reflect.Type generic) {
        if (type == Optional.class) {
            Class<?> content = optionalContent(generic);
            return Optional.ofNullable(convert(cell, content, content));
        }
        if (type == OptionalLong.class) {
            return cell == null ? OptionalLong.empty() : OptionalLong.of((long) convert(cell, Long.class, Long.class));
        }
        if (type == OptionalInt.class) {
            return cell == null
                    ? OptionalInt.empty()
                    : OptionalInt.of((int) convert(cell, Integer.class, Integer.class));
        }
        if (type == OptionalDouble.class) {
            return cell == null
                    ? OptionalDouble.empty()
                    : OptionalDouble.of((double) convert(cell, Double.class, Double.class));
        }
        return switch (cell) {
            case null -> null;
            case Number number when !type.isInstance(cell) -> number(number, type);
            case String text when type.isEnum() -> constant(type, text);
            case Row row when type.isRecord() -> row.to(type.asSubclass(Record.class));
            case byte[] bytes when type == UUID.class && bytes.length == Values.UUID_SIZE -> Values.uuid(bytes);
            case LocalDateTime local when type == Instant.class -> local.toInstant(ZoneOffset.UTC);
            default -> MethodType.methodType(type).wrap().returnType().cast(cell);
        };
    }

    /** Returns the class in an {@code Optional<…>}, or Object if it isn't a plain class. */
    private static Class<?> optionalContent(java.lang.reflect.Type optional) {
        return optional instanceof ParameterizedType parameterized
                        && parameterized.getActualTypeArguments()[0] instanceof Class<?> content
                ? content
                : Object.class;
    }

    private static Object constant(Class<?> type, String name) {
        return Arrays.stream(type.getEnumConstants())
                .filter(constant -> ((Enum<?>) constant).name().equals(name))
                .findFirst()
                .orElseThrow(() -> new ClassCastException(name));
    }

    /** Converts a number to another class; throws if that loses digits, except to {@code Double}. */
    private static Object number(Number number, Class<?> type) {
        return switch (MethodType.methodType(type).wrap().returnType().getName()) {
            case "java.lang.Double" -> number.doubleValue();
            case "java.lang.Float" -> {
                if (number instanceof Double) {
                    throw new ClassCastException(number.toString());
                }
                yield number.floatValue();
            }
            case "java.math.BigDecimal" -> new BigDecimal(integerText(number));
            case "java.math.BigInteger" -> new BigInteger(integerText(number));
            case "java.lang.Long" -> exact(number, Long.MIN_VALUE, Long.MAX_VALUE);
            case "java.lang.Integer" -> (int) exact(number, Integer.MIN_VALUE, Integer.MAX_VALUE);
            case "java.lang.Short" -> (short) exact(number, Short.MIN_VALUE, Short.MAX_VALUE);
            case "java.lang.Byte" -> (byte) exact(number, Byte.MIN_VALUE, Byte.MAX_VALUE);
            default -> throw new ClassCastException(number.toString());
        };
    }

    /** Returns the digits of an integer of any size. */
    private static String integerText(Number number) {
        if (number instanceof Long || number instanceof BigInteger) {
            return number.toString();
        }
        throw new ClassCastException(number.toString());
    }

    private static long exact(Number number, long min, long max) {
        if (number instanceof Long integer && integer >= min && integer <= max) {
            return integer;
        }
        throw new ArithmeticException(number.toString());
    }

    // ---- records to rows ----

    /** Writes one component of a record as the value of its column. */
    public interface CellWriter {
        void write(Object source, MemorySegment value, Values.ByteCopier copier) throws Throwable;
    }

    /** Returns a writer for each column, in the order of the table. */
    public CellWriter[] cellWriters(List<Field> fields) {
        for (Component component : components) {
            Fields.index(fields, component.name);
        }
        return fields.stream().map(this::cellWriter).toArray(CellWriter[]::new);
    }

    private CellWriter cellWriter(Field field) {
        Component component = Arrays.stream(components)
                .filter(candidate -> candidate.name.equals(field.name()))
                .findFirst()
                .orElseThrow(() -> new ArrowwoodException.InvalidArgument(
                        type + " has no component for column '" + field.name() + "'"));
        MethodHandle accessor = component.accessor;
        return switch (component.type.getName()) {
            case "boolean" -> {
                MethodHandle typed = accessor.asType(MethodType.methodType(boolean.class, Object.class));
                yield (source, value, copier) -> Values.putBool(value, (boolean) typed.invokeExact(source));
            }
            case "byte", "short", "int", "long" -> {
                MethodHandle typed = accessor.asType(MethodType.methodType(long.class, Object.class));
                yield (source, value, copier) -> Values.putLong(value, (long) typed.invokeExact(source));
            }
            case "float", "double" -> {
                MethodHandle typed = accessor.asType(MethodType.methodType(double.class, Object.class));
                yield (source, value, copier) -> Values.putDouble(value, (double) typed.invokeExact(source));
            }
            default -> {
                MethodHandle typed = accessor.asType(MethodType.methodType(Object.class, Object.class));
                yield (source, value, copier) ->
                        Values.write(value, (Object) typed.invokeExact(source), field.type(), copier);
            }
        };
    }
}
