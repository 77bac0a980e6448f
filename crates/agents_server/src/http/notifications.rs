//! Notifications as server-sent events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::Channel;
use hyper::Request;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use super::Gateway;
use crate::delivery::Fired;
use crate::response::{Answer, Refused, streamed};

impl Gateway {
    /// Notifications as server-sent events, from a cursor on.
    pub(super) fn stream(
        self: &Arc<Gateway>,
        request: &Request<Incoming>,
        query: &BTreeMap<String, String>,
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
                    if sender.send_data(event(&fired)).await.is_err() {
                        return;
                    }
                }
            }
            loop {
                let next = timeout(Duration::from_secs(15), live.recv()).await;
                let part = match next {
                    // A comment tells the other side that the stream lives.
                    Err(_) => Bytes::from_static(b": \n\n"),
                    Ok(Ok(fired)) if after.is_some_and(|after| fired.n <= after) => continue,
                    Ok(Ok(fired)) => event(&fired),
                    Ok(Err(RecvError::Lagged(_))) => {
                        Bytes::from_static(b"event: gap\ndata: {}\n\n")
                    }
                    Ok(Err(RecvError::Closed)) => return,
                };
                if sender.send_data(part).await.is_err() {
                    return;
                }
            }
        });
        Ok(streamed("text/event-stream", channel, permit))
    }
}

fn event(fired: &Fired) -> Bytes {
    let content = String::from_utf8_lossy(&fired.payload);
    let rest = content.strip_prefix('{').unwrap_or(&content);
    format!("id: {}\ndata: {{\"id\":\"{}\",{rest}\n\n", fired.n, fired.key).into()
}
