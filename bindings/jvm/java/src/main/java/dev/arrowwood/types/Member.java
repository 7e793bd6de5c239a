package dev.arrowwood.types;

/**
 * A value of a union.
 *
 * @param name the name of its member
 * @param value the value, which may be null
 */
public record Member(String name, Object value) {}
