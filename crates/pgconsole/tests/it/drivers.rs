//! A real driver on a real socket: simple queries, and prepared ones with values in binary.

use std::time::Duration;

use pgconsole::{Access, Heard, Reply, Session, Want};
use pgwire::frame::{Frames, Frontend, HEAD, Limits, Piece};
use pgwire::message::{Status, write};
use pgwire::startup::{Opening, Packet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::sample::filled;

/// One client of the console, whom everybody trusts.
async fn serve(mut stream: TcpStream) {
    let (mut buffer, mut out) = (Vec::new(), Vec::new());
    let mut opening = Opening::in_clear();
    loop {
        match opening.read(&buffer).unwrap() {
            Packet::More { .. } => assert!(stream.read_buf(&mut buffer).await.unwrap() > 0),
            Packet::Startup(startup) => {
                assert_eq!(startup.database(), b"pgbouncer");
                let taken = startup.bytes();
                buffer.drain(..taken);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    write::authentication_ok(&mut out);
    let mut session = Session::begin(Access::All, "0.1.0", &mut out);
    write::backend_key_data(&mut out, 1, &[1, 2, 3, 4]);
    write::ready_for_query(&mut out, Status::Idle);
    let mut frames = Frames::<Frontend>::new(Limits::AUTHENTICATION);
    let snapshot = filled();
    loop {
        match frames.look(&buffer).unwrap() {
            piece @ Piece::Whole { tag, len } => {
                let mut heard = session.hear(tag, &buffer[HEAD..len], &mut out);
                while let Heard::Wants(want) = heard {
                    let reply = match want {
                        Want::Snapshot => Reply::Snapshot(&snapshot),
                        Want::Estimates(_) => Reply::Estimates(&snapshot.model),
                        Want::Control(_) => Reply::Done,
                    };
                    heard = session.reply(reply, &mut out);
                }
                let taken = frames.take(piece);
                buffer.drain(..taken);
                if heard == Heard::Ends {
                    return;
                }
            }
            Piece::More { .. } => {
                stream.write_all(&std::mem::take(&mut out)).await.unwrap();
                if stream.read_buf(&mut buffer).await.unwrap() == 0 {
                    return;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Runs `asks` against a console, and gives up after a while.
fn ask<F: Future<Output = ()>>(asks: impl FnOnce(Client) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = tokio::spawn(async move { serve(listener.accept().await.unwrap().0).await });
        let asked = async {
            let options =
                format!("host=127.0.0.1 port={port} user=u dbname=pgbouncer sslmode=disable");
            let (client, connection) = tokio_postgres::connect(&options, NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            asks(client).await;
            connection.await.unwrap().unwrap();
            served.await.unwrap();
        };
        tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap();
    });
}

#[test]
fn a_driver_reads_the_rows_of_a_simple_query() {
    ask(|client| async move {
        let said = client.simple_query("SHOW POOLS; SHOW STATS").await.unwrap();
        let rows: Vec<_> = said
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            })
            .collect();
        assert_eq!(rows.len(), 5);
        assert_eq!(rows[0].get("pool_mode"), Some("transaction"));
        assert_eq!(rows[0].get("load_balance_hosts"), None);
        assert_eq!(rows[4].get("database"), Some("stock"));
        assert_eq!(rows[4].get("total_sent"), Some("7654321"));
        let error = client.simple_query("SHOW CLINETS").await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::SYNTAX_ERROR));
        let error = error.as_db_error().unwrap();
        assert!(error.message().ends_with("did you mean CLIENTS?"), "{error}");
        assert_eq!(error.hint(), Some("SHOW HELP lists the commands"));
        client.batch_execute("PAUSE shop; RESUME shop").await.unwrap();
    });
}

#[test]
fn a_driver_reads_the_values_of_a_prepared_query_in_binary() {
    ask(|client| async move {
        let statement = client.prepare("SHOW POOLS").await.unwrap();
        assert_eq!(statement.params().len(), 0);
        assert_eq!(statement.columns()[2].type_(), &Type::INT4);
        let rows = client.query(&statement, &[]).await.unwrap();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[1].get::<_, &str>("user"), "bo\"b\\");
        assert_eq!(rows[0].get::<_, i32>("maxwait_us"), 500_123);
        assert_eq!(rows[0].get::<_, Option<&str>>("load_balance_hosts"), None);
        let pins = client.query("SHOW PINS", &[]).await.unwrap();
        assert_eq!(pins[0].get::<_, f64>("cost_slots"), 0.75);
        assert_eq!(pins[0].get::<_, i64>("client"), 1);
        let model = client.query("SHOW WHATIF slots 20", &[]).await.unwrap();
        assert_eq!(model[0].get::<_, f64>("value"), 0.0185);
        let error = client.query("SHOW POOLS $1", &[&1_i32]).await.unwrap_err();
        assert!(error.code() == Some(&SqlState::SYNTAX_ERROR), "{error}");
        assert_eq!(client.execute("RELOAD", &[]).await.unwrap(), 0);
    });
}
