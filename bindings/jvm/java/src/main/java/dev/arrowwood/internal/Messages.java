package dev.arrowwood.internal;

import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/** Translates the library's messages: their advice names functions of C and Python, and users need Java's. */
public final class Messages {
    private static final String GIVE_A_ZONE =
            "give an Instant, or the value's own zone, as by value.atZone(zone), or value.atStartOfDay(zone) of a date";
    private static final String GIVE_NO_ZONE = "give a LocalDateTime in the zone that the column is meant in, as by"
            + " LocalDateTime.ofInstant(instant, zone)";
    private static final String PARSE_A_TIME = "as by Instant.parse, LocalDateTime.parse and the like";
    private static final String CONVERT_TO_ARROW = "write it as Arrow with a library that reads it";

    /** Maps advice of the library to advice for Java. */
    private static final Map<String, String> REPLACEMENTS = Map.ofEntries(
            // The C library's own advice; the rest is Python's.
            Map.entry("give a timestamp with a zone: as.timestamp.zone", GIVE_A_ZONE),
            Map.entry(
                    "give a timestamp without a zone, of the time in the zone that the column is meant in",
                    GIVE_NO_ZONE),
            Map.entry("of kind ARROWWOOD_KIND_TIMESTAMP", PARSE_A_TIME),
            Map.entry("`arrowwood import` or arrowwood_read_csv", "`arrowwood import` or Arrowwood.readCsv"),
            Map.entry("with options.late ARROWWOOD_LATE_ACCEPT", "with WriterOptions.Late.ACCEPT"),
            Map.entry("give the value its own, as by value.replace(tzinfo=…) in Python", GIVE_A_ZONE),
            Map.entry("give a time that has one, as datetime(…, tzinfo=…) in Python", GIVE_A_ZONE),
            Map.entry("give the value its own, as by pandas.Timestamp(value, tz=…)", GIVE_A_ZONE),
            Map.entry(
                    "convert the value to the zone that the column is meant in, and take that off, as by "
                            + "value.astimezone(…).replace(tzinfo=None) in Python",
                    GIVE_NO_ZONE),
            Map.entry("as by datetime.fromisoformat(…) in Python", PARSE_A_TIME),
            Map.entry(": ask DuckDB or Polars: ds.sql(…)", ": ask DuckDB or Polars"),
            Map.entry(", as DuckDB by ds.sql(…)", ", as DuckDB"),
            Map.entry(" over the same dataset: ds.sql(…), aw.scan(ds)", " over the same data"),
            Map.entry(", or read it with aw.read_parquet", ""),
            Map.entry("read it with pyarrow.feather.read_table and write it as Arrow", CONVERT_TO_ARROW),
            Map.entry("read it with pyarrow.orc and write it as Arrow", CONVERT_TO_ARROW),
            Map.entry("map it with numpy.load(path, mmap_mode='r')", CONVERT_TO_ARROW),
            Map.entry("`arrowwood import` or read_csv", "`arrowwood import` or Arrowwood.readCsv"),
            Map.entry(
                    "; read_stream reads an Arrow stream as it comes out of one",
                    "; write the stream to a file, and open that"),
            Map.entry("; read it as large_utf8 or use a smaller batch_rows", "; read it as large_utf8"),
            Map.entry("; use LargeList or a smaller batch_rows", "; use large_list"),
            Map.entry("with fewer segment_rows", "with fewer segmentRows"),
            Map.entry("with late=\"accept\"", "with WriterOptions.Late.ACCEPT"),
            Map.entry("created with sorted_by", "created with sortedBy"),
            Map.entry("created without sorted_by", "created without sortedBy"),
            Map.entry("`sorted_by`: ", "sortedBy: "),
            Map.entry("sorted_by: ", "sortedBy: "),
            Map.entry("that sorted_by names", "that sortedBy names"),
            Map.entry(", or all of them by follow_partitions", ""),
            Map.entry("as by drop_before", "as by dropBefore"),
            Map.entry("removed (drop_before)", "removed (dropBefore)"));

    /** Replaces longer phrases first, because some contain others. */
    private static final List<String> LONGEST_FIRST = REPLACEMENTS.keySet().stream()
            .sorted(Comparator.comparing(String::length).reversed())
            .toList();

    private static final Pattern BY_SQL = Pattern.compile(", and in Python by SQL: ds\\.sql\\(.*", Pattern.DOTALL);

    private static final int MAX_LENGTH = 2_000;
    /** Characters to show from the end of a long message, which holds the advice. */
    private static final int END_LENGTH = 500;

    private Messages() {}

    /** Shortens a message to its beginning and end, about 2,000 characters. */
    public static String shortened(String message) {
        if (message.length() <= MAX_LENGTH) {
            return message;
        }
        String start = message.substring(0, characterBoundary(message, MAX_LENGTH - END_LENGTH));
        String end = message.substring(characterBoundary(message, message.length() - END_LENGTH));
        return start + " … (" + (message.length() - start.length() - end.length()) + " characters) … " + end;
    }

    /** Returns the index, or the next one if the index splits a surrogate pair. */
    private static int characterBoundary(String text, int index) {
        return Character.isLowSurrogate(text.charAt(index)) ? index + 1 : index;
    }

    /** Replaces the advice in a message of the library with advice for Java. */
    static String inJava(String message) {
        String translated = message;
        for (String phrase : LONGEST_FIRST) {
            translated = translated.replace(phrase, REPLACEMENTS.get(phrase));
        }
        return BY_SQL.matcher(translated).replaceFirst("");
    }
}
