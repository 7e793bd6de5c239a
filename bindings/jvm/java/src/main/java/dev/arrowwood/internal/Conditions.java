package dev.arrowwood.internal;

import static java.lang.foreign.ValueLayout.ADDRESS;

import dev.arrowwood.ArrowwoodException;
import dev.arrowwood.ArrowwoodException.Code;
import dev.arrowwood.Condition;
import dev.arrowwood.types.Field;
import dev.arrowwood.types.Type;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.List;

/** Builds conditions as {@code arrowwood_predicate}s, which are freed when the call ends. */
public final class Conditions {
    /** The depth of nested conditions that the library accepts. */
    private static final int MAX_DEPTH = 500;

    private final Native.Call call;
    /** The columns of the dataset. */
    private final List<Field> fields;

    private Conditions(Native.Call call, List<Field> fields) {
        this.call = call;
        this.fields = fields;
    }

    /** Refuses conditions that are too deep to be parts of another one. */
    public static void checkDepth(Condition... parts) {
        for (Condition part : parts) {
            if (depth(part) >= MAX_DEPTH) {
                throw new ArrowwoodException.InvalidArgument("conditions are nested more than " + MAX_DEPTH + " deep");
            }
        }
    }

    private static int depth(Condition condition) {
        int depthOfParts = 0;
        for (Condition part : parts(condition)) {
            depthOfParts = Math.max(depthOfParts, depth(part));
        }
        return depthOfParts + 1;
    }

    /** What is left to do for a condition: to build its parts first, or to combine them. */
    private enum Stage {
        BUILD_PARTS,
        COMBINE
    }

    /** A condition that isn't built yet. */
    private record Pending(Condition condition, Stage stage) {}

    /** Builds a condition on rows with these columns. */
    public static MemorySegment build(Native.Call call, Condition whole, List<Field> fields) throws Throwable {
        return new Conditions(call, fields).build(whole);
    }

    /**
     * Builds the parts of each condition before it, in post-order and without recursion: small stacks suffice for deep
     * conditions. A condition with parts is pushed again below them, and combines the results that they leave.
     */
    private MemorySegment build(Condition whole) throws Throwable {
        Deque<Pending> pending = new ArrayDeque<>(List.of(new Pending(whole, Stage.BUILD_PARTS)));
        Deque<MemorySegment> built = new ArrayDeque<>();
        while (!pending.isEmpty()) {
            Pending next = pending.pop();
            List<Condition> parts = parts(next.condition);
            if (parts.isEmpty()) {
                built.push(buildLeaf(next.condition));
            } else if (next.stage == Stage.COMBINE) {
                built.push(combine(next.condition, built));
            } else {
                pending.push(new Pending(next.condition, Stage.COMBINE));
                parts.forEach(part -> pending.push(new Pending(part, Stage.BUILD_PARTS)));
            }
        }
        return built.pop();
    }

    /** Returns the conditions that a condition combines; none of a leaf. */
    private static List<Condition> parts(Condition condition) {
        return switch (condition) {
            case Condition.And(Condition left, Condition right) -> List.of(left, right);
            case Condition.Or(Condition left, Condition right) -> List.of(left, right);
            case Condition.Not(Condition inner) -> List.of(inner);
            case Condition.Compare compare -> List.of();
            case Condition.In in -> List.of();
            case Condition.IsNull isNull -> List.of();
        };
    }

    private MemorySegment buildLeaf(Condition condition) throws Throwable {
        return owned(
                switch (condition) {
                    case Condition.Compare(String column, Condition.Operator operator, Object value) ->
                        (int) Native.COMPARE.invokeExact(
                                call.text(column),
                                code(operator),
                                values(column, Collections.singletonList(value), side(operator)),
                                call.out,
                                call.error);
                    case Condition.In(String column, List<?> list) ->
                        (int) Native.IN.invokeExact(
                                call.text(column),
                                values(column, list, TimeComparison.Side.NEITHER),
                                (long) list.size(),
                                call.out,
                                call.error);
                    case Condition.IsNull(String column) ->
                        (int) Native.IS_NULL.invokeExact(call.text(column), call.out, call.error);
                    default -> throw ArrowwoodException.of(Code.INTERNAL, 0, "no leaf: " + condition);
                });
    }

    /** Returns the value of {@code enum arrowwood_operator}. */
    static int code(Condition.Operator operator) {
        return switch (operator) {
            case EQ -> 1;
            case NE -> 2;
            case LT -> 3;
            case LE -> 4;
            case GT -> 5;
            case GE -> 6;
        };
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

    /** Returns the predicate that a function has created, unless it failed. */
    private MemorySegment owned(int errorCode) throws Throwable {
        call.check(errorCode);
        return Native.owned(call.out.get(ADDRESS, 0), call.arena, Native.PREDICATE_FREE);
    }

    /** Returns the side to round a time to that falls between two counts of the column's unit. */
    private static TimeComparison.Side side(Condition.Operator operator) {
        return switch (operator) {
            case LE, GT -> TimeComparison.Side.BELOW;
            case LT, GE -> TimeComparison.Side.ABOVE;
            case EQ, NE -> TimeComparison.Side.NEITHER;
        };
    }

    /** Returns an array of values to compare with those of a column. */
    private MemorySegment values(String column, List<?> objects, TimeComparison.Side side) {
        Type type = type(column);
        MemorySegment values = Values.VALUE.allocateArray(call.arena, objects.size());
        for (int i = 0; i < objects.size(); i++) {
            Values.writeCompared(Values.VALUE.element(values, i), objects.get(i), type, side, call::copy);
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
