package dev.arrowwood.types;

import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * A column of a schema, or a member of a nested type.
 *
 * @param name its name
 * @param type its type
 * @param nullable whether its values may be null
 * @param metadata its metadata
 */
public record Field(String name, Type type, boolean nullable, Map<String, String> metadata) {
    /**
     * Checks and copies the arguments.
     *
     * @throws NullPointerException if one is null
     */
    public Field {
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(type, "type");
        metadata = Map.copyOf(metadata);
    }

    /**
     * Creates a field whose values may be null.
     *
     * @param name its name
     * @param type its type
     */
    public Field(String name, Type type) {
        this(name, type, true, Map.of());
    }

    /**
     * Returns the same field without nulls.
     *
     * @return a field
     */
    public Field notNull() {
        return new Field(name, type, false, metadata);
    }

    /**
     * Returns the name of the extension type, such as {@code arrow.uuid}.
     *
     * @return the name, or empty if the type isn't an extension type
     */
    public Optional<String> extension() {
        return Optional.ofNullable(metadata.get("ARROW:extension:name"));
    }

    /** Returns the field as {@link dev.arrowwood.Schema#parse} reads it: {@code price: float64 not null}. */
    @Override
    public String toString() {
        boolean needsQuotes = name.isEmpty()
                || name.chars().anyMatch(c -> ",:<>\"'\n\r".indexOf(c) >= 0)
                || !name.strip().equals(name);
        String quoted = needsQuotes ? '"' + name.replace("\"", "\"\"") + '"' : name;
        return quoted + ": " + type + (nullable ? "" : " not null");
    }
}
