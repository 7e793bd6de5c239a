package dev.arrowwood;

import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/** Messages of the library, whose advice is in the words of other languages, in those of Java. */
final class Messages {
    private static final String OF_A_ZONE =
            "give an Instant, or the value's own zone, as by value.atZone(zone), or value.atStartOfDay(zone) of a date";
    private static final String WITHOUT_A_ZONE = "give a LocalDateTime in the zone that the column is meant in, as by"
            + " LocalDateTime.ofInstant(instant, zone)";
    private static final String AS_A_TIME = "as by Instant.parse, LocalDateTime.parse and the like";
    private static final String BY_ANOTHER_LIBRARY = "write it as Arrow with a library that reads it";

    /** What the library says, and what is said instead. */
    private static final Map<String, String> WORDS = Map.ofEntries(
            // As the C library says it.
            Map.entry("give a timestamp with a zone: as.timestamp.zone", OF_A_ZONE),
            Map.entry(
                    "give a timestamp without a zone, of the time in the zone that the column is meant in",
                    WITHOUT_A_ZONE),
            Map.entry("of kind ARROWWOOD_KIND_TIMESTAMP", AS_A_TIME),
            Map.entry("`arrowwood import` or arrowwood_read_csv", "`arrowwood import` or Arrowwood.readCsv"),
            Map.entry("with options.late ARROWWOOD_LATE_ACCEPT", "with WriterOptions.Late.ACCEPT"),
            Map.entry("give the value its own, as by value.replace(tzinfo=…) in Python", OF_A_ZONE),
            Map.entry("give a time that has one, as datetime(…, tzinfo=…) in Python", OF_A_ZONE),
            Map.entry("give the value its own, as by pandas.Timestamp(value, tz=…)", OF_A_ZONE),
            Map.entry(
                    "convert the value to the zone that the column is meant in, and take that off, as by "
                            + "value.astimezone(…).replace(tzinfo=None) in Python",
                    WITHOUT_A_ZONE),
            Map.entry("as by datetime.fromisoformat(…) in Python", AS_A_TIME),
            Map.entry(": ask DuckDB or Polars: ds.sql(…)", ": ask DuckDB or Polars"),
            Map.entry(", as DuckDB by ds.sql(…)", ", as DuckDB"),
            Map.entry(" over the same dataset: ds.sql(…), aw.scan(ds)", " over the same data"),
            Map.entry(", or read it with aw.read_parquet", ""),
            Map.entry("read it with pyarrow.feather.read_table and write it as Arrow", BY_ANOTHER_LIBRARY),
            Map.entry("read it with pyarrow.orc and write it as Arrow", BY_ANOTHER_LIBRARY),
            Map.entry("map it with numpy.load(path, mmap_mode='r')", BY_ANOTHER_LIBRARY),
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

    /** The longer of two first, where one is part of the other. */
    private static final List<String> LONGEST_FIRST = WORDS.keySet().stream()
            .sorted(Comparator.comparing(String::length).reversed())
            .toList();

    private static final Pattern BY_SQL = Pattern.compile(", and in Python by SQL: ds\\.sql\\(.*", Pattern.DOTALL);

    private static final int MOST = 2_000;
    /** How much of the end of a long message is shown, where the advice is. */
    private static final int END = 500;

    private Messages() {}

    /** A message of at most 2,000 characters, or so: its beginning and its end. */
    static String shortened(String message) {
        if (message.length() <= MOST) {
            return message;
        }
        String start = message.substring(0, whole(message, MOST - END));
        String end = message.substring(whole(message, message.length() - END));
        return start + " … (" + (message.length() - start.length() - end.length()) + " characters) … " + end;
    }

    /** An index that doesn't cut a character of two. */
    private static int whole(String text, int index) {
        return Character.isLowSurrogate(text.charAt(index)) ? index + 1 : index;
    }

    /** A message of the library as users of Java can follow it. */
    static String inJava(String message) {
        String said = message;
        for (String words : LONGEST_FIRST) {
            said = said.replace(words, WORDS.get(words));
        }
        return BY_SQL.matcher(said).replaceFirst("");
    }
}
