package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.List;

/** Conditions as {@code arrowwood_predicate}, which are freed at the end of the call. */
final class Conditions {
    private Conditions() {}

    /** A pending step: a condition to build, or one whose parts are built. */
    private record Step(Condition condition, boolean partsAreBuilt) {}

    /** Builds parts before their conditions, without recursion: small stacks suffice for deep conditions. */
    static MemorySegment build(Native.Call call, Condition whole) throws Throwable {
        Deque<Step> steps = new ArrayDeque<>(List.of(new Step(whole, false)));
        Deque<MemorySegment> built = new ArrayDeque<>();
        while (!steps.isEmpty()) {
            Step step = steps.pop();
            List<Condition> parts = parts(step.condition);
            if (parts.isEmpty()) {
                built.push(leaf(call, step.condition));
            } else if (step.partsAreBuilt) {
                built.push(joined(call, step.condition, built));
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

    private static MemorySegment leaf(Native.Call call, Condition condition) throws Throwable {
        return made(
                call,
                switch (condition) {
                    case Condition.Compare(String column, Condition.Operator operator, Object value) ->
                        (int) Native.COMPARE.invokeExact(
                                call.text(column),
                                operator.ordinal() + 1,
                                values(call, Collections.singletonList(value)),
                                call.out,
                                call.error);
                    case Condition.In(String column, List<?> list) ->
                        (int) Native.IN.invokeExact(
                                call.text(column), values(call, list), (long) list.size(), call.out, call.error);
                    case Condition.IsNull(String column) ->
                        (int) Native.IS_NULL.invokeExact(call.text(column), call.out, call.error);
                    default -> throw new Failure.Internal("no leaf: " + condition);
                });
    }

    private static MemorySegment joined(Native.Call call, Condition condition, Deque<MemorySegment> built)
            throws Throwable {
        // Parts were built from the last to the first.
        MemorySegment left = built.pop();
        return made(
                call,
                switch (condition) {
                    case Condition.And and -> (int) Native.AND.invokeExact(left, built.pop(), call.out, call.error);
                    case Condition.Or or -> (int) Native.OR.invokeExact(left, built.pop(), call.out, call.error);
                    default -> (int) Native.NOT.invokeExact(left, call.out, call.error);
                });
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
