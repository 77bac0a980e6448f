//! A watch tells every commit once, in the order of the log: it reads them from the newest version, so that it can
//! neither pass one over nor keep a queue that grows.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use jungle::Commit;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;

use crate::answer::CommitAnswer;
use crate::exchange::{Ask, Reply, coming, set};
use crate::problem::Problem;
use crate::reads::{token, tree_of};
use crate::shared::Shared;
use crate::users::Sight;

/// Events that wait for a connection.
const AHEAD: usize = 64;
/// The time for which a connection may take nothing, before its watch ends; it goes on with its last id.
const SLOW: Duration = Duration::from_secs(30);

struct Watching {
    shared: Arc<Shared>,
    tree: Option<String>,
    /// The last commit that was told or passed over.
    position: u64,
    events: mpsc::Sender<Bytes>,
    heartbeat: Duration,
    sight: Sight,
    /// The watch counts among what its user has in flight.
    _permit: Option<OwnedSemaphorePermit>,
}

/// `GET /watch`: from now on, from behind `?after=TOKEN`, or from behind `Last-Event-ID`.
pub(crate) fn begin(mut ask: Ask, shared: &Arc<Shared>) -> Result<Reply, Problem> {
    let (tree, after) = (ask.take("tree"), ask.take("after"));
    let heartbeat = ask.number::<u64>("heartbeat_s")?;
    ask.nothing_left(&["tree", "after", "heartbeat_s"])?;
    let heartbeat = heartbeat
        .map_or(shared.settings.heartbeat, |seconds| Duration::from_secs(seconds.clamp(1, 3600)));
    let version = shared.store.version();
    if let Some(tree) = &tree {
        ask.caller.must_read(tree)?;
        tree_of(&version, tree)?;
    }
    let from = match (ask.header("last-event-id")?, after.as_deref()) {
        (Some(id), _) | (None, Some(id)) => Some(token(id)?),
        (None, None) => None,
    };
    let generation = shared.store.generation();
    let lost = from.is_some_and(|from| {
        from.generation.is_some_and(|one| one != generation) || from.seq > version.seq()
    });
    let position = from.filter(|_| !lost).map_or(version.seq(), |from| from.seq);
    let (events, parts) = mpsc::channel(AHEAD);
    let shared = Arc::clone(shared);
    let (sight, _permit) = (ask.caller.sight(), ask.caller.take_permit());
    let watching = Watching { shared, tree, position, events, heartbeat, sight, _permit };
    tokio::spawn(watching.run(lost));
    let mut reply = coming("text/event-stream", parts);
    set(&mut reply, "cache-control", "no-store");
    Ok(reply)
}

impl Watching {
    async fn run(mut self, lost: bool) {
        let mut head = self.shared.store.head();
        let mut stopping = self.shared.stopping.clone();
        if lost {
            let why = "what the last event id names is not in this log, which may have lost it";
            self.begin_again(why).await;
            return;
        }
        if !self.tell_position().await {
            return;
        }
        loop {
            head.mark_unchanged();
            if !self.tell_commits().await {
                return;
            }
            tokio::select! {
                changed = head.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(self.heartbeat) => {
                    if !self.tell_position().await {
                        return;
                    }
                }
                () = stopped(&mut stopping) => return,
                () = self.events.closed() => return,
            }
        }
    }

    /// Tells all commits up to the newest; false if the watch is over. No version is held while a client is waited
    /// for.
    async fn tell_commits(&mut self) -> bool {
        loop {
            let version = self.shared.store.version();
            let mut events = Vec::new();
            let mut position = self.position;
            let mut forgotten = false;
            while position < version.seq() && events.len() < AHEAD && !forgotten {
                match version.commit(position + 1) {
                    Some(commit) => {
                        position += 1;
                        if self.is_wanted(commit) {
                            let body = serde_json::to_string(&CommitAnswer::of(commit));
                            events.push((position, body.expect("keys are texts")));
                        }
                    }
                    None => forgotten = true,
                }
            }
            let is_all = position == version.seq();
            drop(version);
            for (seq, body) in events {
                self.position = seq;
                if !self.tell("commit", &body).await {
                    return false;
                }
            }
            self.position = position;
            if forgotten {
                self.begin_again("commits after the last event id are forgotten").await;
                return false;
            }
            if is_all {
                return true;
            }
        }
    }

    fn is_wanted(&self, commit: &Commit) -> bool {
        self.tree.as_deref().is_none_or(|tree| commit.trees().any(|one| one == tree))
            && self.sight.sees(commit)
    }

    async fn tell_position(&self) -> bool {
        self.tell("position", &format!("{{\"seq\":{}}}", self.position)).await
    }

    /// Tells a client whose position cannot be had that it is to read all and go on from here.
    async fn begin_again(&mut self, why: &str) {
        self.position = self.shared.store.version().seq();
        let token = format!("{}.{}", self.shared.store.generation(), self.position);
        let body = format!(
            "{{\"reason\":\"{why}\",\"token\":\"{token}\",\"detail\":\"read the trees again, at this token \
             or later, and go on behind it\"}}"
        );
        self.tell("reset", &body).await;
    }

    /// Sends an event; false if nobody takes it.
    async fn tell(&self, kind: &str, body: &str) -> bool {
        let generation = self.shared.store.generation();
        let event = format!("id: {generation}.{}\nevent: {kind}\ndata: {body}\n\n", self.position);
        matches!(timeout(SLOW, self.events.send(event.into())).await, Ok(Ok(())))
    }
}

/// Waits until the server is to stop.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Without a server there is nothing to wait for either.
    drop(stopping.wait_for(|stop| *stop).await);
}
