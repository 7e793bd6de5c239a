// Writes a growing table, and reads it:
//   jshell --class-path arrowwood-0.1.0.jar -R--enable-native-access=ALL-UNNAMED prices.jsh
import dev.arrowwood.*;
import java.time.*;
import static dev.arrowwood.Condition.col;

record Tick(Instant ts, String symbol, double price) {}

Path table = Files.createTempDirectory("arrowwood").resolve("ticks");
TableWriter writer = TableWriter.open(table, Schema.of(Tick.class), WriterOptions.DEFAULT.sortedBy("ts").dictionary("symbol"));
for (int i = 0; i < 100_000; i++) {
    writer.append(new Tick(Instant.ofEpochSecond(i), i % 3 == 0 ? "IBM" : "AAPL", 100 + i % 7));
}
writer.commit();

Dataset ticks = Arrowwood.open(table);
System.out.println(ticks.display(6, 80));
System.out.println(ticks.column("price").mean().getAsDouble());
System.out.println(ticks.filter(col("symbol").eq("IBM").and(col("price").ge(106))).rowCount());
System.out.println(ticks.aggregate(List.of("symbol"), Aggregate.count(), Aggregate.max("price")).display(6, 80));
System.out.println(ticks.between(Instant.ofEpochSecond(10), Instant.ofEpochSecond(12)).stream(Tick.class).toList());
writer.close();
