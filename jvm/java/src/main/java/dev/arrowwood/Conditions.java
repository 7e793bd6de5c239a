package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.List;

/** Builds conditions as {@code arrowwood_predicate}s, which are freed when the call ends. */
final class Conditions {
    private final Native.Call call;
    /** The columns of the dataset. */
    private final List<Field> fields;

    private Conditions(Native.Call call, List<Field> fields) {
        this.call = call;
        this.fields = fields;
    }

    /** A pending step: a condition to build, or one whose parts are built. */
    private record Step(Condition condition, boolean partsAreBuilt) {}

    /** Builds a condition on rows with these columns. */
    static MemorySegment build(Native.Call call, Condition whole, List<Field> fields) throws Throwable {
        return new Conditions(call, fields).build(whole);
    }

    /** Builds parts before their conditions, without recursion: small stacks suffice for deep conditions. */
    private MemorySegment build(Condition whole) throws Throwable {
        Deque<Step> steps = new ArrayDeque<>(List.of(new Step(whole, false)));
        Deque<MemorySegment> built = new ArrayDeque<>();
        while (!steps.isEmpty()) {
            Step step = steps.pop();
            List<Condition> parts = parts(step.condition);
            if (parts.isEmpty()) {
                built.push(buildLeaf(step.condition));
            } else if (step.partsAreBuilt) {
                built.push(combine(step.condition, built));
            } else {
                steps.push(new Step(step.condition, true));
                parts.forEach(part -> steps.push(new Step(part, false)));
            }
        }
        return built.pop();
    }

    private static List<Condition> parts(Condition condition) {
        return switch (condition) {
            case Condition.And(Condition left, Condition right) -> List.of(left, right);
            case Condition.Or(Condition left, Condition right) -> List.of(left, right);
            case Condition.Not(Condition inner) -> List.of(inner);
            default -> List.of();
        };
    }

    private MemorySegment buildLeaf(Condition condition) throws Throwable {
        return owned(
                switch (condition) {
                    case Condition.Compare(String column, Condition.Operator operator, Object value) ->
                        (int) Native.COMPARE.invokeExact(
                                call.text(column),
                                operator.ordinal() + 1,
                                values(column, Collections.singletonList(value), side(operator)),
                                call.out,
                                call.error);
                    case Condition.In(String column, List<?> list) ->
                        (int) Native.IN.invokeExact(
                                call.text(column),
                                values(column, list, Times.Side.NEITHER),
                                (long) list.size(),
                                call.out,
                                call.error);
                    case Condition.IsNull(String column) ->
                        (int) Native.IS_NULL.invokeExact(call.text(column), call.out, call.error);
                    default -> throw new ArrowwoodException.Internal("no leaf: " + condition);
                });
    }

    private MemorySegment combine(Condition condition, Deque<MemorySegment> built) throws Throwable {
        // Parts were built from the last to the first.
        MemorySegment left = built.pop();
        return owned(
                switch (condition) {
                    case Condition.And and -> (int) Native.AND.invokeExact(left, built.pop(), call.out, call.error);
                    case Condition.Or or -> (int) Native.OR.invokeExact(left, built.pop(), call.out, call.error);
                    default -> (int) Native.NOT.invokeExact(left, call.out, call.error);
                });
    }

    private MemorySegment owned(int code) throws Throwable {
        call.check(code);
        return Native.owned(call.out.get(ADDRESS, 0), call.arena, Native.PREDICATE_FREE);
    }

    /** Returns the side to round a time to that falls between two counts of the column's unit. */
    private static Times.Side side(Condition.Operator operator) {
        return switch (operator) {
            case LE, GT -> Times.Side.BELOW;
            case LT, GE -> Times.Side.ABOVE;
            case EQ, NE -> Times.Side.NEITHER;
        };
    }

    private MemorySegment values(String column, List<?> objects, Times.Side side) {
        Type type = type(column);
        MemorySegment values = call.arena.allocate(Math.max(1, objects.size()) * Values.SIZE, 8);
        for (int i = 0; i < objects.size(); i++) {
            Values.writeCompared(values.asSlice(i * Values.SIZE, Values.SIZE), objects.get(i), type, side, call::copy);
        }
        return values;
    }

    /** Returns the type of a column; null if no column or several have the name, which the library refuses. */
    private Type type(String column) {
        List<Field> matches =
                fields.stream().filter(field -> field.name().equals(column)).toList();
        return matches.size() == 1 ? matches.get(0).type() : null;
    }
}
