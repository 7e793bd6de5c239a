/** Types of columns, as in Arrow's columnar format, and the values for which Java has no class. */
package dev.arrowwood.types;
