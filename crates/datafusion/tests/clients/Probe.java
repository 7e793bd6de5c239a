import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/** What JDBC's driver for Flight SQL sees of a server: a line for each answer, which the test compares. */
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
            rows("catalogs", data.getCatalogs());
            rows("schemas", data.getSchemas());
            rows("table types", data.getTableTypes());
            rows("tables", data.getTables(null, "public", "%", new String[] {"TABLE"}), 3);
            rows("columns", data.getColumns(null, null, "ticks.arrow", "%"), 4, 5);
            rows("primary keys", data.getPrimaryKeys(null, null, "ticks.arrow"));
            try (Statement statement = connection.createStatement()) {
                String grouped = "select symbol, count(*), max(price) from \"ticks.arrow\" group by symbol order by 1";
                rows("grouped", statement.executeQuery(grouped));
                rows(
                        "dates",
                        statement.executeQuery(
                                "select day, price from \"ticks.arrow\" where ts in (9, 110) order by ts"));
                try {
                    rows("refused", statement.executeQuery("drop table grown"));
                } catch (SQLException e) {
                    print("refused", e.getMessage().contains("DDL not supported"));
                }
            }
            String text =
                    "select ts, symbol from \"ticks.arrow\" where symbol = ? and ts < ? and price > ? order by ts";
            try (PreparedStatement statement = connection.prepareStatement(text)) {
                print("parameters", statement.getParameterMetaData().getParameterCount());
                for (int most : new int[] {4, 8}) {
                    statement.setString(1, "IBM");
                    statement.setLong(2, most);
                    statement.setDouble(3, 0.25);
                    rows("prepared " + most, statement.executeQuery());
                }
            }
        }
    }

    private static void print(String name, Object value) {
        System.out.println(name + ": " + value);
    }

    private static void rows(String name, ResultSet rows, int... wanted) throws SQLException {
        StringBuilder told = new StringBuilder();
        int columns = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            told.append(told.length() == 0 ? "" : " | ");
            for (int i = 0; i < (wanted.length == 0 ? columns : wanted.length); i++) {
                told.append(i == 0 ? "" : ",").append(rows.getString(wanted.length == 0 ? i + 1 : wanted[i]));
            }
        }
        rows.close();
        print(name, told);
    }
}
