// Yamamoto's accounts as entities of Pekko's cluster sharding, their states in PostgreSQL by persistence-jdbc: the
// "no scheduler" arm as its makers have it. Reads ticks from standard input, prints who fired:
//
//     RIVAL_URL=jdbc:... java -cp ... sekisho.Rival AGENTS ROOM POLICY
//     tick NUMBER PRICE PRICE ...     ->     fired COUNT SUM LOADS NANOS CPU_NANOS

package sekisho;

import com.typesafe.config.Config;
import com.typesafe.config.ConfigFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.ArrayList;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pekko.actor.typed.ActorSystem;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.cluster.sharding.typed.javadsl.ClusterSharding;
import org.apache.pekko.cluster.sharding.typed.javadsl.Entity;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityTypeKey;
import org.apache.pekko.cluster.typed.Cluster;
import org.apache.pekko.cluster.typed.Join;
import org.apache.pekko.persistence.typed.PersistenceId;
import org.apache.pekko.persistence.typed.state.RecoveryCompleted;
import org.apache.pekko.persistence.typed.state.javadsl.CommandHandler;
import org.apache.pekko.persistence.typed.state.javadsl.DurableStateBehavior;
import org.apache.pekko.persistence.typed.state.javadsl.Effect;
import org.apache.pekko.persistence.typed.state.javadsl.SignalHandler;

public final class Rival {
    /** Messages on their way at once: beyond it the sender waits. */
    private static final int IN_FLIGHT = 1_000;
    private static final EntityTypeKey<Tick> KEY = EntityTypeKey.create(Tick.class, "Account");

    /** A table of prices, and the pass that waits for it. */
    public record Tick(long number, long[] prices, Pass pass) {}

    /** The tally of a pass. */
    public static final class Pass {
        private final AtomicLong count = new AtomicLong();
        private final AtomicLong sum = new AtomicLong();
        private final Semaphore free = new Semaphore(IN_FLIGHT);
        private final CountDownLatch left;

        Pass(int agents) {
            left = new CountDownLatch(agents);
        }

        void fired(long key, long tick, long profit) {
            count.incrementAndGet();
            // FNV-1a over key, tick and profit, as the others have it.
            long hash = 0xcbf29ce484222325L;
            for (long word : new long[] {key, tick, profit}) {
                for (int at = 0; at < 8; at++) {
                    hash = (hash ^ ((word >>> (8 * at)) & 0xff)) * 0x0100000001b3L;
                }
            }
            sum.addAndGet(hash);
        }

        void handled() {
            free.release();
            left.countDown();
        }
    }

    /** Entities whose states were read. */
    private static final AtomicLong LOADS = new AtomicLong();

    /** An account: a byte that says whether it was notified, the last profit, limits, holdings, the rest. */
    private static final class Account extends DurableStateBehavior<Tick, byte[]> {
        private final long key;

        Account(String id) {
            super(PersistenceId.of("Account", id));
            key = Long.parseLong(id);
        }

        @Override
        public byte[] emptyState() {
            return new byte[0];
        }

        @Override
        public SignalHandler<byte[]> signalHandler() {
            return newSignalHandlerBuilder()
                    .onSignal(RecoveryCompleted.class, (state, signal) -> LOADS.incrementAndGet())
                    .build();
        }

        @Override
        public CommandHandler<Tick, byte[]> commandHandler() {
            return newCommandHandlerBuilder().forAnyState().onCommand(Tick.class, this::on).build();
        }

        private Effect<byte[]> on(byte[] state, Tick tick) {
            if (state.length == 0) {
                throw new IllegalStateException("account " + key + " is not in the store");
            }
            ByteBuffer bytes = ByteBuffer.wrap(state).order(ByteOrder.LITTLE_ENDIAN);
            long low = bytes.getLong(9);
            long high = bytes.getLong(17);
            int holdings = bytes.getInt(25);
            long profit = 0;
            for (int at = 29; at < 29 + 16 * holdings; at += 16) {
                long price = tick.prices()[bytes.getInt(at)];
                profit += bytes.getInt(at + 4) * (price - bytes.getLong(at + 8));
            }
            if (profit >= low && profit <= high) {
                tick.pass().handled();
                return Effect().none();
            }
            byte[] next = state.clone();
            next[0] = 1;
            ByteBuffer.wrap(next).order(ByteOrder.LITTLE_ENDIAN).putLong(1, profit);
            long told = profit;
            return Effect().persist(next).thenRun(after -> {
                tick.pass().fired(key, tick.number(), told);
                tick.pass().handled();
            });
        }
    }

    public static void main(String[] args) throws Exception {
        // Its password is nobody else's to see, as arguments are.
        String url = System.getenv("RIVAL_URL");
        int agents = Integer.parseInt(args[0]);
        int room = Integer.parseInt(args[1]);
        String policy = args[2];
        String sharding = "pekko.cluster.sharding.passivation";
        String limits = room >= agents
                ? sharding + ".strategy = none\n"
                : sharding + " { strategy = limited, limited { active-entity-limit = " + room
                        + ", replacement.policy = " + policy + " } }\n";
        String database = "slick.db.url = \"" + url + "\"\n";
        Config config = ConfigFactory.parseString(limits + database)
                .withFallback(ConfigFactory.load())
                .resolve();
        ActorSystem<Void> system = ActorSystem.create(Behaviors.empty(), "rival", config);
        Cluster cluster = Cluster.get(system);
        cluster.manager().tell(Join.create(cluster.selfMember().address()));
        ClusterSharding all = ClusterSharding.get(system);
        all.init(Entity.of(KEY, context -> (Behavior<Tick>) new Account(context.getEntityId())));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        var machine = (com.sun.management.OperatingSystemMXBean)
                ManagementFactory.getOperatingSystemMXBean();
        List<Integer> order = new ArrayList<>();
        for (int key = 0; key < agents; key++) {
            order.add(key);
        }
        Random chance = new Random(1);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            long[] prices = new long[words.length - 2];
            for (int at = 0; at < prices.length; at++) {
                prices[at] = Long.parseLong(words[at + 2]);
            }
            Collections.shuffle(order, chance);
            Pass pass = new Pass(agents);
            Tick tick = new Tick(Long.parseLong(words[1]), prices, pass);
            long loads = LOADS.get();
            long processor = machine.getProcessCpuTime();
            long start = System.nanoTime();
            for (int key : order) {
                if (!pass.free.tryAcquire(120, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("no account was ready for two minutes");
                }
                all.entityRefFor(KEY, Integer.toString(key)).tell(tick);
            }
            if (!pass.left.await(Duration.ofMinutes(2).toSeconds(), TimeUnit.SECONDS)) {
                throw new IllegalStateException(pass.left.getCount() + " accounts did not answer");
            }
            long nanos = System.nanoTime() - start;
            processor = machine.getProcessCpuTime() - processor;
            System.out.println("fired " + pass.count.get() + " " + Long.toUnsignedString(pass.sum.get()) + " "
                    + (LOADS.get() - loads) + " " + nanos + " " + processor);
            System.out.flush();
        }
        system.terminate();
    }

    private Rival() {}
}
