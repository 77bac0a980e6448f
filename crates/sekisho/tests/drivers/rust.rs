//! tokio-postgres before the gate: it speaks binary, and pipelines what is asked at the same time.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::{join, join_all, try_join_all};
use futures_util::{SinkExt, TryStreamExt};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::behind::{Behind, CLIENTS, Mode, PATIENCE, runtime};

/// Client that is in, and its connection, which is served until it goes.
struct Guest {
    client: Client,
    served: JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl Guest {
    async fn enter(behind: &Behind) -> Guest {
        let (client, connection) = behind.account().connect(NoTls).await.expect("it is let in");
        Guest { client, served: tokio::spawn(connection) }
    }

    async fn leave(self) {
        drop(self.client);
        self.served.await.expect("it does not panic").expect("its connection was well to its end");
    }
}

/// A value that nobody else has.
fn nonce() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("it is later").as_nanos();
    format!("{since}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn echo(client: &Client) {
    let mine = nonce();
    let row = client.query_one("select $1::text", &[&mine]).await.expect("it is answered");
    assert_eq!(row.get::<_, String>(0), mine);
}

#[track_caller]
fn fails<T>(result: Result<T, tokio_postgres::Error>, code: &SqlState) {
    let error = result.err().expect("it fails");
    assert_eq!(error.code(), Some(code), "{error}");
}

/// Does the same for each client, with a connection of its own.
async fn at_once(behind: &Behind, work: impl AsyncFn(&mut Client, usize)) {
    let of_client = async |number| {
        let mut guest = Guest::enter(behind).await;
        work(&mut guest.client, number).await;
        guest.leave().await;
    };
    join_all((0..CLIENTS).map(of_client)).await;
}

async fn transactions(behind: &Behind, table: &str) -> Result<(), tokio_postgres::Error> {
    let guest = Guest::enter(behind).await;
    let made = format!("drop table if exists {table}; create table {table} (n int, x text)");
    guest.client.batch_execute(&made).await?;
    guest.leave().await;
    let insert = format!("insert into {table} values ($1, $2)");
    let select = format!("select x from {table} where n = $1");
    at_once(behind, async |client, number| {
        let mine = write(client, number as i32, &insert, &select).await.expect("it is done");
        assert_eq!(mine, 10);
    })
    .await;
    let guest = Guest::enter(behind).await;
    let count = guest.client.query_one(&format!("select count(*) from {table}"), &[]).await?;
    assert_eq!(count.get::<_, i64>(0), 10 * CLIENTS as i64);
    guest.leave().await;
    Ok(())
}

/// Ten transactions that see their own rows, each with a part that is taken back; how many rows there are.
async fn write(
    client: &mut Client,
    number: i32,
    insert: &str,
    select: &str,
) -> Result<usize, tokio_postgres::Error> {
    let mut mine = Vec::new();
    for _ in 0..10 {
        let mut open = client.transaction().await?;
        mine.push(nonce());
        open.execute(insert, &[&number, mine.last().expect("it was pushed above")]).await?;
        let inner = open.transaction().await?;
        inner.execute(insert, &[&number, &"not meant"]).await?;
        inner.rollback().await?;
        let rows = open.query(select, &[&number]).await?;
        let mut found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        found.sort();
        mine.sort();
        assert_eq!(found, mine);
        open.commit().await?;
    }
    Ok(mine.len())
}

async fn prepared(behind: &Behind) -> Result<(), tokio_postgres::Error> {
    at_once(behind, async |client, number| {
        // Its names are s0, s1 and so on for every client, with another text in each.
        let own = client.prepare(&format!("select '{number} ' || $1::text")).await;
        let own = own.expect("it is prepared");
        let next = client.prepare("select $1::int + 1").await.expect("it is prepared");
        for turn in 0..30_i32 {
            let mine = nonce();
            let row = client.query_one(&own, &[&mine]).await.expect("it is answered");
            assert_eq!(row.get::<_, String>(0), format!("{number} {mine}"));
            let row = client.query_one(&next, &[&turn]).await.expect("it is answered");
            assert_eq!(row.get::<_, i32>(0), turn + 1);
            echo(client).await;
        }
        if matches!(behind.mode(), Mode::Session) {
            let text = "select count(*) from pg_prepared_statements";
            let count = client.query_one(text, &[]).await.expect("it is answered");
            assert!(count.get::<_, i64>(0) >= 2);
        }
        drop((own, next));
        fails(client.prepare("selec").await, &SqlState::SYNTAX_ERROR);
        echo(client).await;
    })
    .await;
    Ok(())
}

async fn pipeline(behind: &Behind) -> Result<(), tokio_postgres::Error> {
    at_once(behind, async |client, number| {
        let text = format!("select '{number} ' || $1::text");
        let own = client.prepare(&text).await.expect("it is prepared");
        let wrong = client.prepare("select 1 / $1::int").await.expect("it is prepared");
        for _ in 0..5 {
            let mine: Vec<String> = (0..40).map(|_| nonce()).collect();
            let asked = mine.iter().map(|one| async {
                client.query_one(&own, &[one]).await.map(|row| row.get::<_, String>(0))
            });
            let zero = async { client.query_one(&wrong, &[&0_i32]).await };
            let (heard, failed) = join(try_join_all(asked), zero).await;
            let wanted: Vec<String> = mine.iter().map(|one| format!("{number} {one}")).collect();
            assert_eq!(heard.expect("all are answered"), wanted);
            fails(failed, &SqlState::DIVISION_BY_ZERO);
        }
    })
    .await;
    Ok(())
}

async fn copy(behind: &Behind, table: &str) -> Result<(), tokio_postgres::Error> {
    let into = format!("copy {table} from stdin");
    at_once(behind, async |client, number| {
        let mut mine: Vec<String> = (0..500).map(|_| nonce()).collect();
        let number = 1000 + number;
        let mut sink = pin!(client.copy_in(&into).await.expect("it is taken"));
        for one in &mine {
            let row = Bytes::from(format!("{number}\t{one}\n"));
            sink.send(row).await.expect("it is taken");
        }
        assert_eq!(sink.finish().await.expect("it is done"), 500);
        let out = format!("copy (select x from {table} where n = {number}) to stdout");
        let rows = client.copy_out(&out).await.expect("it is given");
        let rows: Vec<Bytes> = rows.try_collect().await.expect("all of it comes");
        let rows = String::from_utf8(rows.concat()).expect("it is text");
        let mut heard: Vec<&str> = rows.lines().collect();
        heard.sort_unstable();
        mine.sort();
        assert_eq!(heard, mine);
        let mut sink = pin!(client.copy_in(&into).await.expect("it is taken"));
        sink.send(Bytes::from("1\n")).await.expect("it is sent");
        fails(sink.finish().await, &SqlState::BAD_COPY_FILE_FORMAT);
        // Dropped before its end: a COPY that fails.
        drop(client.copy_in::<_, Bytes>(&into).await.expect("it is taken"));
        echo(client).await;
    })
    .await;
    Ok(())
}

async fn cancel(behind: &Behind) -> Result<(), tokio_postgres::Error> {
    let (mine, over) = (nonce(), AtomicBool::new(false));
    let beside = async {
        let guest = Guest::enter(behind).await;
        while !over.load(Ordering::Relaxed) {
            guest.client.query_one("select pg_sleep(0.01)::text", &[]).await?;
            echo(&guest.client).await;
        }
        guest.leave().await;
        Ok::<_, tokio_postgres::Error>(())
    };
    let cancelled = async {
        let (sleeping, looking) = (Guest::enter(behind).await, Guest::enter(behind).await);
        let began =
            "select count(*) from pg_stat_activity where query like $1 and state = 'active'";
        let (text, like) = (
            format!("select pg_sleep(600), '{mine}'"),
            format!("select pg\\_sleep(600), '{mine}%"),
        );
        for _ in 0..3 {
            let stop = async {
                while looking.client.query_one(began, &[&like]).await?.get::<_, i64>(0) != 1 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                sleeping.client.cancel_token().cancel_query(NoTls).await
            };
            let (ended, stopped) = join(sleeping.client.simple_query(&text), stop).await;
            stopped?;
            fails(ended, &SqlState::QUERY_CANCELED);
            echo(&sleeping.client).await;
        }
        sleeping.leave().await;
        looking.leave().await;
        over.store(true, Ordering::Relaxed);
        Ok(())
    };
    let (one, other) = join(beside, cancelled).await;
    one.and(other)
}

async fn error(behind: &Behind) -> Result<(), tokio_postgres::Error> {
    let wrong = [
        ("selec", SqlState::SYNTAX_ERROR),
        ("select 1 / 0", SqlState::DIVISION_BY_ZERO),
        ("select * from nothing_such", SqlState::UNDEFINED_TABLE),
    ];
    at_once(behind, async |client, _| {
        for (text, code) in &wrong {
            let open = client.transaction().await.expect("it begins");
            open.query("select 1", &[]).await.expect("it is answered");
            fails(open.query(*text, &[]).await, code);
            fails(open.query("select 2", &[]).await, &SqlState::IN_FAILED_SQL_TRANSACTION);
            open.rollback().await.expect("it is taken back");
            echo(client).await;
        }
    })
    .await;
    Ok(())
}

async fn types(behind: &Behind) -> Result<(), tokio_postgres::Error> {
    let text = "ä € \u{1f980} 'quoted' \\".to_owned();
    let (large, raw) = ("x".repeat(300_000), (0..=255).collect::<Vec<u8>>());
    let moment = SystemTime::UNIX_EPOCH + Duration::from_micros(1_795_370_707_123_456);
    let many = vec![Some(1_i32), None, Some(3)];
    let words = vec!["a".to_owned(), "b,c".to_owned(), "\"".to_owned()];
    let asked = "select $1::int4, $2::int8, $3::float8, $4::bool, $5::text, $6::text, $7::bytea, \
                 $8::timestamptz, $9::int4[], $10::text[], $11::text";
    at_once(behind, async |client, _| {
        let nothing: Option<String> = None;
        let row = client
            .query_one(
                asked,
                &[
                    &7_i32,
                    &(1_i64 << 40),
                    &1.5_f64,
                    &true,
                    &nothing,
                    &text,
                    &raw,
                    &moment,
                    &many,
                    &words,
                    &large,
                ],
            )
            .await
            .expect("it is answered");
        assert_eq!((row.get(0), row.get(1), row.get(2)), (7_i32, 1_i64 << 40, 1.5_f64));
        assert!(row.get::<_, bool>(3) && row.get::<_, Option<String>>(4).is_none());
        assert_eq!(row.get::<_, String>(5), text);
        assert_eq!(row.get::<_, Vec<u8>>(6), raw);
        assert_eq!(row.get::<_, SystemTime>(7), moment);
        assert_eq!(row.get::<_, Vec<Option<i32>>>(8), many);
        assert_eq!(row.get::<_, Vec<String>>(9), words);
        assert_eq!(row.get::<_, String>(10), large);
    })
    .await;
    Ok(())
}

async fn notify(behind: &Behind, table: &str) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = behind.account().connect(NoTls).await?;
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let served = tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(told) = message.expect("its connection is well") {
                sender.send(told.payload().to_owned()).expect("somebody listens");
            }
        }
    });
    client.batch_execute(&format!("listen {table}")).await?;
    let telling = Guest::enter(behind).await;
    for _ in 0..3 {
        let mine = nonce();
        telling.client.execute("select pg_notify($1, $2)", &[&table, &mine]).await?;
        let told = tokio::time::timeout(PATIENCE, heard.recv()).await.expect("it comes in time");
        assert_eq!(told, Some(mine));
    }
    telling.leave().await;
    client.batch_execute("unlisten *").await?;
    drop(client);
    served.await.expect("nothing was wrong");
    Ok(())
}

fn drive(mode: Mode) {
    let behind = Behind::start(mode);
    let table = format!("rust_{}", mode.name());
    let all = async {
        transactions(&behind, &table).await?;
        prepared(&behind).await?;
        pipeline(&behind).await?;
        copy(&behind, &table).await?;
        cancel(&behind).await?;
        error(&behind).await?;
        types(&behind).await?;
        notify(&behind, &table).await
    };
    let limited = async { tokio::time::timeout(PATIENCE, all).await };
    runtime().block_on(limited).expect("it ends in time").expect("all is answered");
    behind.end();
}

#[test]
fn in_transaction_mode() {
    drive(Mode::Transaction);
}

#[test]
fn in_session_mode() {
    drive(Mode::Session);
}
