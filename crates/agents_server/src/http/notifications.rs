//! Notifications as server-sent events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agents_rules::Firing;
use bytes::Bytes;
use http_body_util::channel::Channel;
use hyper::Request;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout_at};

use super::Gateway;
use crate::delivery::Fired;
use crate::response::{Answer, Refused, streamed};
use crate::users::Reach;

/// Time without an event after which a stream tells that it lives.
const BEAT: Duration = Duration::from_secs(15);

impl Gateway {
    /// Notifications of the agents of a user as server-sent events, from a cursor on.
    pub(super) fn stream(
        self: &Arc<Gateway>,
        request: &Request<Incoming>,
        query: &BTreeMap<String, String>,
        reach: Reach,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Answer, Refused> {
        let last = request.headers().get("last-event-id").and_then(|it| it.to_str().ok());
        let cursor = last.or(query.get("after").map(String::as_str));
        let cursor = cursor.map(|text| text.parse::<u64>());
        let cursor = cursor
            .transpose()
            .map_err(|_| Refused::bad("a cursor is a whole number: the id of the last event"))?;
        let mut live = self.board.live.subscribe();
        let (mut sender, channel) = Channel::<Bytes>::new(64);
        let board = self.board.clone();
        tokio::spawn(async move {
            let mut after = cursor;
            if let Some(cursor) = after {
                let (part, is_whole) = board.recent(cursor);
                if !is_whole && sender.send_data("event: gap\ndata: {}\n\n".into()).await.is_err() {
                    return;
                }
                for fired in part {
                    after = Some(fired.n);
                    if !is_of(&reach, &fired) {
                        continue;
                    }
                    if sender.send_data(event(&fired)).await.is_err() {
                        return;
                    }
                }
            }
            // Notifications of other agents are no sign of life.
            let mut beat = Instant::now() + BEAT;
            loop {
                let next = timeout_at(beat, live.recv()).await;
                let part = match next {
                    // A comment tells the other side that the stream lives.
                    Err(_) => Bytes::from_static(b": \n\n"),
                    Ok(Ok(fired)) if after.is_some_and(|after| fired.n <= after) => continue,
                    Ok(Ok(fired)) if !is_of(&reach, &fired) => continue,
                    Ok(Ok(fired)) => event(&fired),
                    Ok(Err(RecvError::Lagged(_))) => {
                        Bytes::from_static(b"event: gap\ndata: {}\n\n")
                    }
                    Ok(Err(RecvError::Closed)) => return,
                };
                if sender.send_data(part).await.is_err() {
                    return;
                }
                beat = Instant::now() + BEAT;
            }
        });
        Ok(streamed("text/event-stream", channel, permit))
    }
}

/// True if a notification is of an agent of these.
fn is_of(reach: &Reach, fired: &Fired) -> bool {
    reach.is_all() || Firing::read(&fired.payload).is_ok_and(|firing| reach.covers(&firing.agent))
}

fn event(fired: &Fired) -> Bytes {
    let content = String::from_utf8_lossy(&fired.payload);
    let rest = content.strip_prefix('{').unwrap_or(&content);
    format!("id: {}\ndata: {{\"id\":\"{}\",{rest}\n\n", fired.n, fired.key).into()
}
