// The JDBC driver before the gate, as it comes: prepares by a name what is asked five times, and then
// speaks binary.

import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.PGStatement;
import org.postgresql.copy.CopyManager;

public final class Drive {
    static final int CLIENTS = Integer.parseInt(System.getenv("SEKISHO_CLIENTS"));
    static final String TABLE = System.getenv("SEKISHO_TABLE");
    static final boolean IS_SESSION = System.getenv("SEKISHO_MODE").equals("session");

    interface Work {
        void with(Connection connection, int client) throws Exception;
    }

    interface Asked {
        void run() throws Exception;
    }

    static Connection connect() throws SQLException {
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
            + System.getenv("PGDATABASE") + "?loginTimeout=60";
        return DriverManager.getConnection(url, System.getenv("PGUSER"), System.getenv("PGPASSWORD"));
    }

    static String nonce() {
        return UUID.randomUUID().toString();
    }

    static void holds(boolean condition, Object told) {
        if (!condition) {
            throw new AssertionError(told);
        }
    }

    static void fails(String state, Asked asked) throws Exception {
        try {
            asked.run();
        } catch (BatchUpdateException error) {
            holds(error.getSQLState().equals(state), error);
            return;
        } catch (SQLException error) {
            holds(error.getSQLState().equals(state), error);
            return;
        }
        throw new AssertionError("no error " + state);
    }

    static void execute(Connection connection, String text) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(text);
        }
    }

    static String ask(Connection connection, String text, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            for (int at = 0; at < values.length; at++) {
                statement.setObject(at + 1, values[at]);
            }
            return first(statement);
        }
    }

    static String first(PreparedStatement statement) throws SQLException {
        try (ResultSet rows = statement.executeQuery()) {
            holds(rows.next(), "no row");
            return rows.getString(1);
        }
    }

    /** Does the same for each client, with a connection of its own. */
    static void atOnce(Work work) throws Exception {
        List<Thread> threads = new ArrayList<>();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        for (int client = 0; client < CLIENTS; client++) {
            int number = client;
            threads.add(new Thread(() -> {
                try (Connection connection = connect()) {
                    work.with(connection, number);
                } catch (Throwable cause) {
                    failure.compareAndSet(null, cause);
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        if (failure.get() != null) {
            throw new AssertionError(failure.get());
        }
    }

    static void transactions() throws Exception {
        try (Connection connection = connect()) {
            execute(connection, "drop table if exists " + TABLE);
            execute(connection, "create table " + TABLE + " (n int, x text)");
        }
        String insert = "insert into " + TABLE + " values (?, ?)";
        atOnce((connection, client) -> {
            connection.setAutoCommit(false);
            List<String> mine = new ArrayList<>();
            for (int turn = 0; turn < 10; turn++) {
                mine.add(nonce());
                try (PreparedStatement statement = connection.prepareStatement(insert)) {
                    statement.setInt(1, client);
                    statement.setString(2, mine.get(turn));
                    holds(statement.executeUpdate() == 1, "one row is inserted");
                }
                String all = "select string_agg(x, ',' order by x) from " + TABLE + " where n = ?";
                Collections.sort(mine);
                String heard = ask(connection, all, client);
                holds(heard.equals(ask(connection, "select string_agg(x, ',' order by x) from unnest(?) x",
                    connection.createArrayOf("text", mine.toArray()))), heard);
                connection.commit();
            }
            execute(connection, "select 1");
            Savepoint before = connection.setSavepoint();
            execute(connection, "insert into " + TABLE + " values (1, 'x')");
            connection.rollback(before);
            connection.commit();
            // Fetched in parts: a portal that is there in several series.
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(25);
                ResultSet rows = statement.executeQuery("select g from generate_series(1, 120) g");
                for (int wanted = 1; wanted <= 120; wanted++) {
                    holds(rows.next() && rows.getInt(1) == wanted, wanted);
                }
                holds(!rows.next(), "more rows than there are");
            }
            execute(connection, "insert into " + TABLE + " values (1, 'x')");
            connection.rollback();
            connection.setAutoCommit(true);
        });
        try (Connection connection = connect()) {
            String count = ask(connection, "select count(*) from " + TABLE);
            holds(count.equals(String.valueOf(CLIENTS * 10)), count);
        }
    }

    static void prepared() throws Exception {
        atOnce((connection, client) -> {
            String text = "select '" + client + " ' || ?::text";
            try (PreparedStatement own = connection.prepareStatement(text);
                    PreparedStatement other = connection.prepareStatement("select ?::int + 1")) {
                for (int turn = 0; turn < 30; turn++) {
                    String mine = nonce();
                    own.setString(1, mine);
                    String heard = first(own);
                    holds(heard.equals(client + " " + mine), heard + " for " + mine);
                    other.setInt(1, turn);
                    holds(first(other).equals(String.valueOf(turn + 1)), turn);
                }
                holds(own.unwrap(PGStatement.class).isUseServerPrepare(), "it is prepared on the server");
            }
            if (IS_SESSION) {
                String count = ask(connection, "select count(*) from pg_prepared_statements");
                holds(Integer.parseInt(count) >= 2, count);
            }
            for (int turn = 0; turn < 40; turn++) {
                for (int again = 0; again < 6; again++) {
                    String mine = nonce();
                    holds(ask(connection, "select '" + turn + "' || ?", mine).equals(turn + mine), mine);
                }
            }
        });
    }

    static void pipeline() throws Exception {
        String insert = "insert into " + TABLE + " values (?, ?)";
        atOnce((connection, client) -> {
            List<String> mine = new ArrayList<>();
            try (PreparedStatement statement = connection.prepareStatement(insert)) {
                for (int turn = 0; turn < 300; turn++) {
                    mine.add(nonce());
                    statement.setInt(1, 500 + client);
                    statement.setString(2, mine.get(turn));
                    statement.addBatch();
                }
                holds(Arrays.stream(statement.executeBatch()).allMatch(count -> count == 1), "each is one row");
            }
            Array all = connection.createArrayOf("text", mine.toArray());
            String found = "select count(*) from " + TABLE + " where n = ? and x = any(?)";
            holds(ask(connection, found, 500 + client, all).equals("300"), "all are there");
            try (Statement statement = connection.createStatement()) {
                statement.addBatch("select 1");
                statement.addBatch("update " + TABLE + " set n = 1 / 0");
                statement.addBatch("delete from " + TABLE);
                fails("22012", statement::executeBatch);
            }
            // Several in one text go as a series as well.
            try (Statement statement = connection.createStatement()) {
                statement.execute("select 'one'; select 'two'");
                holds(statement.getMoreResults(), "there is a second result");
                ResultSet rows = statement.getResultSet();
                holds(rows.next() && rows.getString(1).equals("two"), "it is the second");
            }
        });
    }

    static void copy() throws Exception {
        atOnce((connection, client) -> {
            CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
            List<String> mine = new ArrayList<>();
            StringBuilder lines = new StringBuilder();
            for (int turn = 0; turn < 500; turn++) {
                mine.add(nonce());
                lines.append(1000 + client).append('\t').append(mine.get(turn)).append('\n');
            }
            String in = "copy " + TABLE + " from stdin";
            holds(copies.copyIn(in, new StringReader(lines.toString())) == 500, "all were taken");
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            String where = " where n = " + (1000 + client);
            copies.copyOut("copy (select x from " + TABLE + where + ") to stdout", out);
            List<String> heard = Arrays.asList(out.toString(StandardCharsets.UTF_8).trim().split("\n"));
            Collections.sort(mine);
            Collections.sort(heard);
            holds(heard.equals(mine), heard.size());
            fails("22P04", () -> copies.copyIn(in, new StringReader("1\n")));
            var going = copies.copyIn(in);
            byte[] row = "1\tnot meant\n".getBytes(StandardCharsets.UTF_8);
            going.writeToCopy(row, 0, row.length);
            going.cancelCopy();
            holds(ask(connection, "select ?", mine.get(0)).equals(mine.get(0)), "it goes on");
        });
    }

    static void cancel() throws Exception {
        String mine = nonce();
        AtomicBoolean over = new AtomicBoolean();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Thread beside = new Thread(() -> {
            try (Connection connection = connect()) {
                while (!over.get()) {
                    String heard = ask(connection, "select ?::text || pg_sleep(0.01)::text", mine);
                    holds(heard.equals(mine), heard);
                }
            } catch (Throwable cause) {
                failure.compareAndSet(null, cause);
            }
        });
        beside.start();
        try (Connection sleeping = connect(); Connection looking = connect()) {
            String began = "select count(*) from pg_stat_activity where query like ? and state = 'active'";
            for (int turn = 0; turn < 3; turn++) {
                try (Statement statement = sleeping.createStatement()) {
                    Thread ends = new Thread(() -> {
                        try {
                            fails("57014", () -> statement.execute("select pg_sleep(600), '" + mine + "'"));
                        } catch (Throwable cause) {
                            failure.compareAndSet(null, cause);
                        }
                    });
                    ends.start();
                    while (!ask(looking, began, "select pg\\_sleep(600), '" + mine + "%").equals("1")) {
                        Thread.sleep(10);
                    }
                    statement.cancel();
                    ends.join();
                }
                holds(ask(sleeping, "select ?", mine).equals(mine), "it goes on");
            }
            try (Statement statement = sleeping.createStatement()) {
                statement.setQueryTimeout(1);
                fails("57014", () -> statement.execute("select pg_sleep(600)"));
            }
            holds(ask(sleeping, "select ?", mine).equals(mine), "it goes on");
        }
        over.set(true);
        beside.join();
        holds(failure.get() == null, failure.get());
    }

    static void error() throws Exception {
        String[][] wrong = {{"selec", "42601"}, {"select 1 / 0", "22012"}, {"select * from nothing_such", "42P01"}};
        atOnce((connection, client) -> {
            String mine = nonce();
            for (String[] one : wrong) {
                connection.setAutoCommit(false);
                holds(ask(connection, "select ?", mine).equals(mine), "it goes on");
                fails(one[1], () -> execute(connection, one[0]));
                fails("25P02", () -> ask(connection, "select ?", mine));
                connection.rollback();
                connection.setAutoCommit(true);
            }
            holds(ask(connection, "select ?", mine).equals(mine), "it goes on");
        });
    }

    static void types() throws Exception {
        OffsetDateTime moment = OffsetDateTime.of(2026, 11, 22, 18, 5, 7, 123456000, ZoneOffset.UTC);
        UUID id = UUID.randomUUID();
        BigDecimal exact = new BigDecimal("12345678901234567890.0123456789");
        byte[] raw = {0, 1, 2, -1, '\\', '\''};
        String text = "ä € \ud83e\udd80 'quoted' \\";
        String large = "x".repeat(300_000);
        String asked = "select ?::int4, ?::int8, ?::float8, ?::bool, ?::text, ?::text, ?::bytea, ?::numeric, "
            + "?::timestamptz, ?::uuid, ?::int4[], ?::text, ?::jsonb";
        atOnce((connection, client) -> {
            try (PreparedStatement statement = connection.prepareStatement(asked)) {
                // The first ones as texts, the later ones in binary.
                for (int turn = 0; turn < 8; turn++) {
                    Object[] values = {7, 1L << 40, 1.5, true, null, text, raw, exact, moment, id,
                        connection.createArrayOf("int4", new Integer[] {1, null, 3}), large, "{\"a\": 1}"};
                    for (int at = 0; at < values.length; at++) {
                        statement.setObject(at + 1, values[at]);
                    }
                    try (ResultSet row = statement.executeQuery()) {
                        holds(row.next(), "a row");
                        holds(row.getInt(1) == 7 && row.getLong(2) == 1L << 40 && row.getDouble(3) == 1.5, turn);
                        holds(row.getBoolean(4) && row.getString(5) == null && row.wasNull(), turn);
                        holds(row.getString(6).equals(text) && Arrays.equals(row.getBytes(7), raw), turn);
                        holds(row.getBigDecimal(8).equals(exact), row.getBigDecimal(8));
                        holds(row.getObject(9, OffsetDateTime.class).isEqual(moment), row.getString(9));
                        holds(row.getObject(10).equals(id), row.getString(10));
                        holds(Arrays.equals((Integer[]) row.getArray(11).getArray(), new Integer[] {1, null, 3}), turn);
                        holds(row.getString(12).equals(large) && row.getString(13).equals("{\"a\": 1}"), turn);
                    }
                }
            }
        });
    }

    static void notifications() throws Exception {
        try (Connection listening = connect(); Connection telling = connect()) {
            execute(listening, "listen " + TABLE);
            for (int turn = 0; turn < 3; turn++) {
                String mine = nonce();
                ask(telling, "select pg_notify(?, ?)", TABLE, mine);
                PGNotification[] heard = listening.unwrap(PGConnection.class).getNotifications(60_000);
                holds(heard != null && heard.length == 1 && heard[0].getParameter().equals(mine), mine);
            }
            execute(listening, "unlisten *");
        }
    }

    static void show(String name, Asked check) throws Exception {
        check.run();
        System.out.println("ok " + name);
    }

    public static void main(String[] words) {
        try {
            if (Arrays.asList(words).contains("refused")) {
                Refused.all();
            } else {
                all();
            }
        } catch (Throwable cause) {
            cause.printStackTrace();
            System.exit(1);
        }
        // A thread that goes on, a timer of the driver, would keep it from its end.
        System.exit(0);
    }

    static void all() throws Exception {
        show("transactions", Drive::transactions);
        show("prepared", Drive::prepared);
        show("pipeline", Drive::pipeline);
        show("copy", Drive::copy);
        show("cancel", Drive::cancel);
        show("error", Drive::error);
        show("types", Drive::types);
        show("notify", Drive::notifications);
    }
}
