import java.io.ByteArrayOutputStream;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;

import org.postgresql.PGConnection;
import org.postgresql.core.BaseConnection;
import org.postgresql.core.TransactionState;
import org.postgresql.util.PSQLException;

/** The driver before a gate that refuses: its connection can be used still. */
final class Refused {
    private Refused() {
    }

    static void simple(Connection connection) throws SQLException {
        Drive.execute(connection, "select 'simple'");
    }

    static void prepared(Connection connection) throws SQLException {
        Drive.ask(connection, "select ?", "prepared");
    }

    static void pipeline(Connection connection) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement("insert into " + Drive.TABLE + " values (?)")) {
            for (int turn = 0; turn < 5; turn++) {
                insert.setInt(1, turn);
                insert.addBatch();
            }
            insert.executeBatch();
        }
    }

    static void copy(Connection connection) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        connection.unwrap(PGConnection.class).getCopyAPI().copyOut("copy (select 'copied') to stdout", out);
        Drive.holds(out.toString().equals("copied\n"), out);
    }

    interface Check {
        void of(Connection connection) throws Exception;
    }

    /** The refusal, where it is one, and nothing else. */
    private static PSQLException refusal(Check check, Connection connection) throws Exception {
        try {
            check.of(connection);
        } catch (SQLException error) {
            for (SQLException one = error; one != null; one = one.getNextException()) {
                if (one instanceof PSQLException told) {
                    return told;
                }
            }
            throw error;
        }
        return null;
    }

    private static void show(String name, Check check, Connection holder, Connection refused) throws Exception {
        // The first times it is served, so that it has prepared what it prepares.
        boolean[] isFull = {false, false, true, true, false};
        for (boolean full : isFull) {
            holder.setAutoCommit(!full);
            if (full) {
                Drive.execute(holder, "select 1");
            }
            PSQLException refusal = refusal(check, refused);
            if (full) {
                holder.commit();
                Drive.holds(refusal != null && refusal.getSQLState().equals("53300"), refusal);
                String detail = refusal.getServerErrorMessage().getDetail();
                Drive.holds(detail.contains("estimated wait"), detail);
            } else {
                Drive.holds(refusal == null, refusal);
            }
            Drive.holds(!refused.isClosed() && refused.isValid(0), name);
            TransactionState state = refused.unwrap(BaseConnection.class).getTransactionState();
            Drive.holds(state == TransactionState.IDLE, state);
        }
        System.out.println("ok " + name);
    }

    static void all() throws Exception {
        try (Connection holder = Drive.connect(); Connection refused = Drive.connect()) {
            refused.unwrap(PGConnection.class).setPrepareThreshold(1);
            Drive.execute(holder, "create table " + Drive.TABLE + " (n int)");
            int process = refused.unwrap(PGConnection.class).getBackendPID();
            show("simple", Refused::simple, holder, refused);
            show("prepared", Refused::prepared, holder, refused);
            show("pipeline", Refused::pipeline, holder, refused);
            show("copy", Refused::copy, holder, refused);
            Drive.holds(refused.unwrap(PGConnection.class).getBackendPID() == process, "the same connection");
            // What was refused was not done.
            String count = Drive.ask(refused, "select count(*) from " + Drive.TABLE);
            Drive.holds(count.equals("15"), count);
        }
    }
}
