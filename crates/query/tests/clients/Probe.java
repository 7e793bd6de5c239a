import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.stream.IntStream;

/** Prints what the JDBC driver for Flight SQL receives, a line for each answer, which test_jdbc.py compares. */
public final class Probe {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("useEncryption", "false");
        for (int i = 1; i + 1 < arguments.length; i += 2) {
            properties.put(arguments[i], arguments[i + 1]);
        }
        try (Connection connection = DriverManager.getConnection(arguments[0], properties)) {
            DatabaseMetaData data = connection.getMetaData();
            print("product", data.getDatabaseProductName() + ", quoted by " + data.getIdentifierQuoteString());
            print("read-only", data.isReadOnly());
            print("search escape", data.getSearchStringEscape());
            print("transactions", data.supportsTransactions());
            printRows("catalogs", data.getCatalogs());
            printRows("schemas", data.getSchemas());
            printRows("table types", data.getTableTypes());
            printRows("tables", data.getTables(null, "public", "%", new String[] {"TABLE"}), 3);
            printRows("columns", data.getColumns(null, null, "ticks.arrow", "%"), 4, 5);
            printRows("primary keys", data.getPrimaryKeys(null, null, "ticks.arrow"));
            try (Statement statement = connection.createStatement()) {
                String grouped = "select symbol, count(*), max(price) from \"ticks.arrow\" group by symbol order by 1";
                printRows("grouped", statement.executeQuery(grouped));
                printRows(
                        "dates",
                        statement.executeQuery(
                                "select day, price from \"ticks.arrow\" where ts in (9, 110) order by ts"));
                try {
                    printRows("refused", statement.executeQuery("drop table grown"));
                } catch (SQLException e) {
                    print("refused", e.getMessage().contains("DDL not supported"));
                }
            }
            String sql = "select ts, symbol from \"ticks.arrow\" where symbol = ? and ts < ? and price > ? order by ts";
            try (PreparedStatement statement = connection.prepareStatement(sql)) {
                print("parameters", statement.getParameterMetaData().getParameterCount());
                for (int end : new int[] {4, 8}) {
                    statement.setString(1, "IBM");
                    statement.setLong(2, end);
                    statement.setDouble(3, 0.25);
                    printRows("prepared " + end, statement.executeQuery());
                }
            }
        }
    }

    private static void print(String name, Object value) {
        System.out.println(name + ": " + value);
    }

    /** Prints the values of each row, of all columns or of those with the given numbers. */
    private static void printRows(String name, ResultSet rows, int... columns) throws SQLException {
        int[] printed = columns;
        if (columns.length == 0) {
            printed = IntStream.rangeClosed(1, rows.getMetaData().getColumnCount())
                    .toArray();
        }
        StringJoiner lines = new StringJoiner(" | ");
        while (rows.next()) {
            StringJoiner values = new StringJoiner(",");
            for (int column : printed) {
                values.add(rows.getString(column));
            }
            lines.add(values.toString());
        }
        rows.close();
        print(name, lines);
    }
}
