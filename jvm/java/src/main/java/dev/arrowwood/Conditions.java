package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.List;

/** Conditions as {@code arrowwood_predicate}, which are freed at the end of the call. */
final class Conditions {
    private Conditions() {}

    static MemorySegment build(Native.Call call, Condition condition) throws Throwable {
        return switch (condition) {
            case Condition.Compare(String column, Condition.Operator operator, Object value) -> made(call, (int)
                    Native.COMPARE.invokeExact(
                            call.text(column), operator.ordinal() + 1, values(call, List.of(optional(value))), call.out,
                            call.error));
            case Condition.In(String column, List<?> list) -> made(call, (int) Native.IN.invokeExact(
                    call.text(column), values(call, list), (long) list.size(), call.out, call.error));
            case Condition.IsNull(String column) ->
                made(call, (int) Native.IS_NULL.invokeExact(call.text(column), call.out, call.error));
            case Condition.And(Condition left, Condition right) -> joined(call, Native.AND, left, right);
            case Condition.Or(Condition left, Condition right) -> joined(call, Native.OR, left, right);
            case Condition.Not(Condition inner) -> {
                MemorySegment built = build(call, inner);
                yield made(call, (int) Native.NOT.invokeExact(built, call.out, call.error));
            }
        };
    }

    /** A list can't hold null itself. */
    private static java.util.Optional<Object> optional(Object value) {
        return java.util.Optional.ofNullable(value);
    }

    private static MemorySegment joined(Native.Call call, MethodHandle function, Condition left, Condition right)
            throws Throwable {
        MemorySegment first = build(call, left);
        MemorySegment second = build(call, right);
        return made(call, (int) function.invokeExact(first, second, call.out, call.error));
    }

    private static MemorySegment made(Native.Call call, int code) throws Throwable {
        call.check(code);
        return Native.owned(call.out.get(ADDRESS, 0), call.arena, Native.PREDICATE_FREE);
    }

    private static MemorySegment values(Native.Call call, List<?> objects) {
        MemorySegment values = call.arena.allocate(Math.max(1, objects.size()) * Values.SIZE, 8);
        for (int i = 0; i < objects.size(); i++) {
            Values.write(values.asSlice(i * Values.SIZE, Values.SIZE), objects.get(i), null, call::room);
        }
        return values;
    }
}
