package dev.arrowwood.internal;

import dev.arrowwood.ArrowwoodException;
import dev.arrowwood.ArrowwoodException.Code;
import dev.arrowwood.types.Field;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Finds fields by their names. */
public final class Fields {
    /** The number of names that a message about a missing column lists. */
    private static final int MAX_LISTED_NAMES = 20;

    private Fields() {}

    /** Returns the index of the only field with a name. */
    public static int index(List<Field> fields, String name) {
        int[] matches = IntStream.range(0, fields.size())
                .filter(i -> fields.get(i).name().equals(name))
                .toArray();
        if (matches.length == 0) {
            String names = fields.stream()
                    .map(field -> "'" + field.name() + "'")
                    .limit(MAX_LISTED_NAMES)
                    .collect(Collectors.joining(", "));
            throw ArrowwoodException.of(Code.COLUMN_NOT_FOUND, 0, "no column '" + name + "'; there are " + names);
        }
        if (matches.length > 1) {
            throw new ArrowwoodException.InvalidArgument(
                    "several columns are called '" + name + "': use their indexes");
        }
        return matches[0];
    }
}
