//! The past: who changed this and when, what is different, and how it is taken back.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use jungle::PastError;

use crate::answer::{
    BlameAnswer, CommitAnswer, CommitView, DiffAnswer, DifferenceView, EntryView, LogAnswer,
    SeqAnswer,
};
use crate::bodies::{At, Hold, Pick};
use crate::edits::commit_past;
use crate::exchange::{Ask, Reply, empty, json};
use crate::problem::Problem;
use crate::reads::{node_of, past_of, tree_of, version_at};
use crate::request::{settled, target};
use crate::shared::Shared;

/// The most commits or differences of an answer.
const LIMIT_MAX: usize = 10_000;
/// The longest lease of a version that is held \[s\].
const LEASE_MAX_S: u32 = 86_400;
/// The commits of an answer where nobody says how many.
const LIMIT: usize = 100;

fn number(text: &str) -> Result<u64, Problem> {
    text.parse().map_err(|_| {
        Problem::bad_request(format!("`{text}` is no number of a commit, which is such as 17"))
    })
}

/// The number of a commit that there is, or was.
fn known(shared: &Shared, text: &str) -> Result<u64, Problem> {
    let (seq, newest) = (number(text)?, shared.store.version().seq());
    if seq == 0 || seq > newest {
        return Err(Problem::not_found(format!(
            "there is no commit {seq}; the newest is {newest}"
        )));
    }
    Ok(seq)
}

/// A commit shows as a whole, or not at all.
fn must_see(ask: &Ask, commit: &jungle::Commit) -> Result<(), Problem> {
    commit.trees().try_for_each(|tree| ask.caller.must_read(tree))
}

/// The same of a commit that is to be taken back or picked, as long as it is remembered.
fn must_see_known(ask: &Ask, shared: &Shared, seq: u64) -> Result<(), Problem> {
    shared.store.version().commit(seq).map_or(Ok(()), |commit| must_see(ask, commit))
}

/// `GET /commits`: newest first.
pub(crate) fn commits(mut ask: Ask, shared: &Arc<Shared>) -> Result<Reply, Problem> {
    let limit = ask.number("limit")?.unwrap_or(LIMIT).min(LIMIT_MAX);
    let before = ask.number::<u64>("before")?;
    ask.nothing_left(&["limit", "before"])?;
    let version = shared.store.version();
    let first = before.map_or(version.seq(), |before| before.saturating_sub(1)).min(version.seq());
    let numbers = (1..=first).rev();
    let sight = ask.caller.sight();
    let commits = numbers.map_while(|seq| version.commit(seq)).filter(|commit| sight.sees(commit));
    let commits = commits.take(limit).map(CommitView::of);
    Ok(json(StatusCode::OK, &commits.collect::<Vec<_>>()))
}

/// `GET /commits/SEQ`.
pub(crate) fn commit(ask: Ask, shared: &Arc<Shared>, seq: &str) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let (seq, version) = (number(seq)?, shared.store.version());
    let none = || {
        let oldest = version.oldest_commit().unwrap_or(0);
        let detail =
            format!("commit {seq} is not remembered; commits {oldest} to {} are", version.seq());
        Problem::not_found(detail)
    };
    let commit = version.commit(seq).ok_or_else(none)?;
    must_see(&ask, commit)?;
    Ok(json(StatusCode::OK, &CommitAnswer::of(commit)))
}

/// `GET /trees/TREE/nodes/NODE/log`.
pub(crate) async fn log(
    mut ask: Ask,
    shared: &Arc<Shared>,
    name: &str,
    place: &str,
) -> Result<Reply, Problem> {
    let version = version_at(&mut ask, &shared.store).await?;
    let limit = ask.number("limit")?.unwrap_or(LIMIT).min(LIMIT_MAX);
    let before = ask.number::<u64>("before")?;
    ask.nothing_left(&["at", "limit", "before"])?;
    let tree = tree_of(&version, name)?;
    let node = node_of(tree, place)?.id();
    let log = match target(place)? {
        jungle::Target::Node(id) => version.log(name, id),
        jungle::Target::Path(path) => version.log_at(name, &path),
    };
    let mut log = log.expect("the node was found");
    let (mut entries, mut next_before) = (Vec::new(), None);
    let sight = ask.caller.sight();
    tokio::task::block_in_place(|| {
        for entry in log.by_ref() {
            if before.is_some_and(|before| entry.commit.seq() >= before) {
                continue;
            }
            if entries.len() == limit {
                next_before = entries.last().map(|last: &EntryView| last.commit.seq);
                break;
            }
            entries.push(EntryView::of(&entry, &sight));
        }
    });
    let (seq, tree, node) = (version.seq(), name.to_owned(), node.to_string());
    let forgotten = log.forgotten();
    Ok(json(StatusCode::OK, &LogAnswer { seq, tree, node, entries, next_before, forgotten }))
}

/// `GET /trees/TREE/nodes/NODE/blame`.
pub(crate) async fn blame(
    mut ask: Ask,
    shared: &Arc<Shared>,
    name: &str,
    place: &str,
) -> Result<Reply, Problem> {
    let version = version_at(&mut ask, &shared.store).await?;
    ask.nothing_left(&["at"])?;
    let tree = tree_of(&version, name)?;
    let node = node_of(tree, place)?.id();
    let blame = tokio::task::block_in_place(|| version.blame(name, node));
    let blame = blame.ok_or(jungle::EditError::NotAddressable)?;
    Ok(json(
        StatusCode::OK,
        &BlameAnswer::of(version.seq(), name, node, &blame, &ask.caller.sight()),
    ))
}

/// `GET /trees/TREE/diff?from=SEQ`, to `to` or to now, or from another tree of one descent (`from_tree`).
pub(crate) async fn diff(mut ask: Ask, shared: &Arc<Shared>, name: &str) -> Result<Reply, Problem> {
    let limit = ask.number("limit")?.unwrap_or(1_000).min(LIMIT_MAX);
    let (from, to, other) = (ask.take("from"), ask.take("to"), ask.take("from_tree"));
    ask.nothing_left(&["from", "to", "from_tree", "limit"])?;
    let later = match &to {
        Some(to) => past_of(&shared.store, to).await?,
        None => shared.store.version(),
    };
    tree_of(&later, name)?;
    let (earlier, list) = match (&from, &other) {
        (Some(from), None) => {
            let earlier = past_of(&shared.store, from).await?;
            tree_of(&earlier, name)?;
            let list = tokio::task::block_in_place(|| later.differences(&earlier, name));
            (earlier.seq(), list.expect("both have the tree"))
        }
        (None, Some(other)) => {
            ask.caller.must_read(other)?;
            tree_of(&later, other)?;
            let compared = tokio::task::block_in_place(|| later.compare(other, name));
            (later.seq(), compared.expect("both trees are there").0)
        }
        _ => {
            return Err(Problem::bad_request(
                "say either `?from=COMMIT`, an earlier version, or `?from_tree=TREE`, its origin or branch",
            ));
        }
    };
    let more = list.len() > limit;
    let differences = list.iter().take(limit).filter_map(DifferenceView::of).collect();
    let tree = name.to_owned();
    Ok(json(
        StatusCode::OK,
        &DiffAnswer { tree, from: earlier, to: later.seq(), differences, more },
    ))
}

/// `POST /commits/SEQ/revert`.
pub(crate) async fn revert(ask: Ask, shared: &Arc<Shared>, seq: &str) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let seq = known(shared, seq)?;
    must_see_known(&ask, shared, seq)?;
    commit_past(&ask, shared, move |database| database.revert(seq)).await
}

/// `POST /commits/SEQ/pick`.
pub(crate) async fn pick(ask: Ask, shared: &Arc<Shared>, seq: &str) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let (seq, Pick { from, into }) = (known(shared, seq)?, ask.json()?);
    ask.caller.must_read(&from)?;
    ask.caller.must_write(&into)?;
    must_see_known(&ask, shared, seq)?;
    commit_past(&ask, shared, move |database| database.pick(seq, &from, &into)).await
}

/// `POST /trees/TREE/nodes/NODE/restore`.
pub(crate) async fn restore(
    ask: Ask,
    shared: &Arc<Shared>,
    name: &str,
    place: &str,
) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let At { at } = ask.json()?;
    let version = shared.store.version();
    tree_of(&version, name)?;
    let node = match settled(&version, name, target(place)?) {
        jungle::Target::Node(id) => id,
        jungle::Target::Path(path) => return Err(jungle::EditError::NoSuchPath(path).into()),
    };
    let tree = name.to_owned();
    commit_past(&ask, shared, move |database| database.restore(&tree, node, at)).await
}

/// `PUT /holds/NAME`: a version is kept under a name.
pub(crate) async fn hold(ask: Ask, shared: &Arc<Shared>, name: &str) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    ask.caller.must_administer("keep a version")?;
    let Hold { seq, lease_s } = ask.json()?;
    if let Some(seconds) = lease_s.filter(|seconds| !(1..=LEASE_MAX_S).contains(seconds)) {
        return Err(Problem::bad_request(format!(
            "a lease of {seconds} s: it has 1 to {LEASE_MAX_S}; ask again before it ends, or leave `lease_s` out"
        )));
    }
    let lease = lease_s.map(|seconds| Duration::from_secs(seconds.into()));
    if !shared.store.hold(name.to_owned(), seq, lease).await? {
        return Err(PastError::NoSuchVersion(seq).into());
    }
    Ok(json(StatusCode::OK, &SeqAnswer { seq }))
}

/// `DELETE /holds/NAME`.
pub(crate) async fn let_go(ask: Ask, shared: &Arc<Shared>, name: &str) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    ask.caller.must_administer("let go of a version")?;
    let held = name.to_owned();
    if !shared.store.let_go(held).await? {
        return Err(Problem::not_found(format!("nothing is held under the name `{name}`")));
    }
    Ok(empty(StatusCode::NO_CONTENT))
}
