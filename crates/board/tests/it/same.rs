//! The same operations on all stores give the same bytes.

use std::sync::Arc;

use board::{Board, BoardError, Choice, Durability, Span, Store};
use rand_core::Rng;
use workload::{Chance, stream};

use crate::naive::{Naive, Planted};
use crate::places::Place;

/// One random operation; what it came to, as text.
async fn operate(board: &Board, chance: &mut Chance, clock: &mut u64, made: &mut Made) -> String {
    // The clock may stand, and even go back a little: the board's time does not.
    *clock = (*clock + u64::from(chance.next_u32() % 3_000_000)).saturating_sub(500_000);
    let number = |chance: &mut Chance, most: usize| chance.next_u64() as usize % most.max(1);
    let one = number(chance, made.messages.len());
    let (thread, message) = made.messages.get(one).copied().unwrap_or((1, 1));
    // One in ten names a thread that is not the message's.
    let thread = if number(chance, 10) == 0 { thread + 1 } else { thread };
    let body = format!("text {} <&>\n\"'\u{e4}\u{1f333}", chance.next_u32());
    let outcome = match number(chance, 10) {
        0 => board
            .open(*clock, "ann & bob", &format!("title {clock}"))
            .await
            .inspect(|id| made.threads.push(*id)),
        1 => board.edit(*clock, thread, message, &body).await.map(|()| 0),
        2 => board.delete(thread, message).await.map(|()| 0),
        _ => {
            let thread = *made.threads.get(number(chance, made.threads.len())).unwrap_or(&9_999);
            board
                .append(*clock, thread, "carol", &body)
                .await
                .inspect(|id| made.messages.push((thread, *id)))
        }
    };
    match outcome {
        Err(error @ BoardError::Store(_)) => panic!("{error}"),
        other => format!("{other:?}"),
    }
}

#[derive(Default)]
struct Made {
    threads: Vec<u64>,
    messages: Vec<(u64, u64)>,
}

/// All pages of a board, one behind the other.
async fn pages(board: &Board, made: &Made) -> String {
    let mut all = String::new();
    let last = made.messages.last().map_or(0, |(_, id)| *id);
    for span in [Span::After(0), Span::Newest, Span::After(last / 2), Span::After(last)] {
        all += &board.threads(span).await.unwrap();
        for thread in &made.threads {
            all += &board.messages(*thread, span).await.unwrap();
        }
    }
    all
}

async fn run(board: &Board, seed: u64, operations: usize) -> (Vec<String>, Made) {
    let (mut chance, mut made) = (stream(seed, 0), Made::default());
    let (mut clock, mut outcomes) = (1_795_766_400_000_000, Vec::new());
    for _ in 0..operations {
        outcomes.push(operate(board, &mut chance, &mut clock, &mut made).await);
    }
    (outcomes, made)
}

fn seeds() -> Vec<u64> {
    match std::env::var("SEKISHO_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => vec![1, 2],
    }
}

/// Each store, in both durability classes, must be the naive board to the byte, and still be it after it was stopped
/// and opened again.
#[tokio::test]
async fn every_store_gives_the_same_bytes() {
    for seed in seeds() {
        println!("SEKISHO_SEED={seed} cargo test -p board --test it same_bytes -- --nocapture");
        let naive = Board::on(Arc::new(Naive::new(Planted::None))).await.unwrap();
        let (wanted_outcomes, made) = run(&naive, seed, 400).await;
        let wanted = pages(&naive, &made).await;
        assert!(wanted.contains("edited 20") && wanted.contains("?after="), "all kinds of pages");
        assert!(wanted_outcomes.iter().any(|one| one.contains("Missing")), "some are missing");
        let contents = naive.verify().await.unwrap();
        assert_eq!(contents.faults, Vec::<String>::new(), "seed {seed}");
        for durability in [Durability::Strict, Durability::Relaxed] {
            let place = Place::new();
            for choice in place.choices(durability).await {
                let told = format!("seed {seed}, {choice:?}, {durability:?}");
                let board = Board::on(choice.open(durability).await.unwrap()).await.unwrap();
                let (outcomes, own) = run(&board, seed, 400).await;
                assert_eq!(outcomes, wanted_outcomes, "{told}");
                assert_eq!(pages(&board, &own).await, wanted, "{told}");
                assert_eq!(board.verify().await.unwrap(), contents, "{told}");
                board.store().stop().unwrap();
                drop(board);
                let again = Board::on(choice.open(durability).await.unwrap()).await.unwrap();
                assert_eq!(pages(&again, &made).await, wanted, "{told}, opened again");
                assert_eq!(again.found(), &contents, "{told}, opened again");
                let thread = made.threads[0];
                let id = again.append(0, thread, "dave", "on").await.unwrap();
                assert!(id > contents.id_max, "{told}: ids go on behind the greatest");
                assert_eq!(again.verify().await.unwrap().faults, Vec::<String>::new(), "{told}");
                again.store().stop().unwrap();
            }
        }
    }
}

/// A verification that finds nothing wrong is worth something only if it finds what is wrong.
#[tokio::test]
async fn a_verification_finds_what_was_planted() {
    let cases = [
        (Planted::Lost, "were acknowledged"),
        (Planted::Twice, "twice"),
        (Planted::Shuffled, "comes behind"),
    ];
    for (planted, wanted) in cases {
        let board = Board::on(Arc::new(Naive::new(planted))).await.unwrap();
        let thread = board.open(0, "ann", "thread").await.unwrap();
        for _ in 0..30 {
            board.append(0, thread, "ann", "body").await.unwrap();
        }
        let found = board.verify().await.unwrap();
        assert!(found.faults.iter().any(|one| one.contains(wanted)), "{planted:?}: {found:?}");
    }
}

/// An append whose client goes before the answer.
fn leave(board: &Board, thread: u64, body: &str) {
    let mut append = std::pin::pin!(board.append(0, thread, "ann", body));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(append.as_mut().poll(&mut context).is_pending());
}

/// The story: as many appends of unknown fate as acknowledged messages were lost, and the one excused the other.
#[tokio::test]
async fn what_is_of_unknown_fate_excuses_no_loss() {
    let board = Board::on(Arc::new(Naive::new(Planted::Lost))).await.unwrap();
    let thread = board.open(0, "ann", "thread").await.unwrap();
    for _ in 0..30 {
        board.append(0, thread, "ann", "body").await.unwrap();
    }
    (0..3).for_each(|_| leave(&board, thread, "gone"));
    let found = board.verify().await.unwrap();
    let told = "27 messages are stored, and 30 to 33 were acknowledged or of unknown fate";
    assert!(found.faults.iter().any(|one| one.contains(told)), "{found:?}");
}

/// The story: clients of a run that was cut off left while their appends were on the way to the disk. These were stored
/// and counted nowhere, so that the board called its own store unfaithful.
#[tokio::test]
async fn a_write_whose_client_has_gone_is_of_unknown_fate() {
    let board = Board::on(Arc::new(Naive::new(Planted::Silent))).await.unwrap();
    let thread = board.open(0, "ann", "thread").await.unwrap();
    leave(&board, thread, "body");
    let unknown = board.writes().messages.unknown.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(unknown, 1);
    let found = board.verify().await.unwrap();
    assert_eq!((found.messages, found.faults), (1, Vec::new()));
}

/// PostgreSQL has no NUL in a text and the others do: what a store could refuse alone is refused by the board.
#[tokio::test]
async fn texts_that_some_store_cannot_hold_are_refused_on_all() {
    let place = Place::new();
    for choice in place.choices(Durability::Relaxed).await {
        let board = Board::on(choice.open(Durability::Relaxed).await.unwrap()).await.unwrap();
        let thread = board.open(0, "ann", "thread").await.unwrap();
        let long = "x".repeat(board::BODY_MAX + 1);
        for wrong in ["", "a\0b", long.as_str()] {
            let refused = board.append(0, thread, "ann", wrong).await;
            assert!(matches!(refused, Err(BoardError::Text(_))), "{choice:?}: {refused:?}");
        }
        let longest = "\u{7f}\u{1}".repeat(board::BODY_MAX / 2);
        board.append(0, thread, "ann", &longest).await.unwrap();
        assert!(board.messages(thread, Span::After(0)).await.unwrap().contains(&longest));
        board.store().stop().unwrap();
    }
}

/// Writes side by side: each store keeps the order of ids, and a page never shows an id before a smaller one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_side_by_side_keep_the_order_of_ids() {
    let place = Place::new();
    for choice in place.choices(Durability::Strict).await {
        let board = Board::on(choice.open(Durability::Strict).await.unwrap()).await.unwrap();
        let board = Arc::new(board);
        let thread = board.open(0, "ann", "thread").await.unwrap();
        let writers: Vec<_> = (0..16)
            .map(|writer| {
                let board = Arc::clone(&board);
                tokio::spawn(async move {
                    for number in 0..20 {
                        let body = format!("{writer}.{number}");
                        board.append(0, thread, "ann", &body).await.unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let found = board.verify().await.unwrap();
        assert_eq!((found.messages, &found.faults[..]), (320, &[][..]), "{choice:?}");
        let (_, all) =
            board.store().messages(thread, Span::After(0), 1_000).await.unwrap().unwrap();
        for writer in 0..16 {
            let own = format!("{writer}.");
            let bodies: Vec<_> =
                all.iter().filter(|one| one.body.starts_with(&own)).map(|one| &one.body).collect();
            let wanted: Vec<_> = (0..20).map(|number| format!("{writer}.{number}")).collect();
            assert_eq!(
                bodies,
                wanted.iter().collect::<Vec<_>>(),
                "{choice:?}: each writer's order"
            );
        }
        board.store().stop().unwrap();
    }
}

/// A directory that another board has is refused, not shared.
#[tokio::test]
async fn a_store_that_cannot_be_had_says_why() {
    let place = Place::new();
    let choice = Choice::Jungle(place.0.join("one"));
    let store: Arc<dyn Store> = choice.open(Durability::Strict).await.unwrap();
    says(&choice, Durability::Strict, &["jungle: ", "the server with process id", "stop it"]).await;
    store.stop().unwrap();
    let file = place.0.join("file");
    std::fs::write(&file, "text").unwrap();
    let file = Choice::Sqlite(file);
    says(&file, Durability::Strict, &["sqlite: ", "File exists", "name a folder"]).await;
    let nowhere = Choice::Postgres("postgres://nobody:none@127.0.0.1:1/none".to_owned());
    let words = ["postgres: ", "Connection refused", "see that PostgreSQL runs"];
    says(&nowhere, Durability::Strict, &words).await;
    let nowhere = Choice::Etcd("127.0.0.1:1/none".to_owned());
    let words = ["etcd: 127.0.0.1:1: ", "Connection refused", "start an etcd"];
    says(&nowhere, Durability::Strict, &words).await;
    says(&nowhere, Durability::Relaxed, &["no relaxed class", "use the strict one"]).await;
    let nowhere = Choice::Cassandra("127.0.0.1:1/none".to_owned());
    #[cfg(feature = "cassandra")]
    let words = ["cassandra: 127.0.0.1:1: ", "Connection refused", "start a Cassandra"];
    #[cfg(not(feature = "cassandra"))]
    let words = ["cassandra: ", "this build has no client", "build with `--features cassandra`"];
    says(&nowhere, Durability::Strict, &words).await;
}

/// A store that cannot be opened names itself, the cause and the way out.
async fn says(choice: &Choice, durability: Durability, words: &[&str]) {
    let refused = choice.open(durability).await.err().unwrap().to_string();
    assert!(refused.starts_with(words[0]) || durability == Durability::Relaxed, "{refused}");
    for word in words {
        assert!(refused.contains(word), "`{word}` is not in: {refused}");
    }
}

/// A class that the server was not started with is refused, not taken for the other.
#[cfg(feature = "cassandra")]
#[tokio::test]
async fn a_cassandra_of_another_class_is_refused() {
    let place = Place::new();
    let choices = place.choices(Durability::Relaxed).await;
    let choice = choices.last().unwrap();
    let refused = choice.open(Durability::Strict).await.err().unwrap().to_string();
    assert!(refused.contains("`commitlog_sync` is `periodic`"), "{refused}");
    assert!(refused.contains("cassandra.yaml"), "{refused}");
}
