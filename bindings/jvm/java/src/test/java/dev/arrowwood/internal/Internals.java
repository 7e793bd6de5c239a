package dev.arrowwood.internal;

import dev.arrowwood.Condition;
import dev.arrowwood.types.Type;
import java.util.List;
import java.util.UUID;

/** Shows the tests what is visible in this package only. */
public final class Internals {
    public static final int ABI = Library.ABI;

    private Internals() {}

    public static String platform(String osName, String osArch, boolean isMusl) {
        return Library.platform(osName, osArch, isMusl);
    }

    public static String missing(String platform, List<String> present) {
        return Library.missing(platform, present);
    }

    public static String inJava(String message) {
        return Messages.inJava(message);
    }

    public static int code(Condition.Operator operator) {
        return Conditions.code(operator);
    }

    public static int code(Type.Unit unit) {
        return Values.code(unit);
    }

    public static Type.Unit unit(int code) {
        return Values.unit(code);
    }

    /** Returns the code of a kind of values, by the name of its constant. */
    public static int kind(String name) throws ReflectiveOperationException {
        return (int) Values.class.getDeclaredField(name).get(null);
    }

    public static byte[] bytes(UUID uuid) {
        return Values.bytes(uuid);
    }
}
