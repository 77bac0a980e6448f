//! Dead letters and undelivered notifications: lists of them, and their second chance.

use std::collections::BTreeMap;

use agents::Priority;
use hyper::StatusCode;

use super::ingress::{Send, one};
use super::{Gateway, number};
use crate::answer::{LetterView, LettersAnswer, SentAnswer, UndeliveredAnswer, UndeliveredView};
use crate::ids::message_id;
use crate::response::{Answer, Refused, object};

/// Rows of a page of a list.
const PAGE: usize = 100;

impl Gateway {
    pub(super) async fn dead(&self, query: &BTreeMap<String, String>) -> Result<Answer, Refused> {
        let partition = number(query, "partition")?.unwrap_or(0) as u32;
        let after = number(query, "after")?.unwrap_or(0);
        let rows = self.blocking(move |store| store.dead(partition, after, PAGE)).await?;
        let next = (rows.len() == PAGE).then(|| rows.last().map(|row| row.n)).flatten();
        let letters = rows.iter().map(|row| LetterView {
            n: row.n,
            partition: u64::from(partition),
            key: row.letter.key.0.to_string(),
            cause: row.letter.reason.clone(),
            message: row.letter.message.as_ref().map(|message| message.told(500)),
        });
        let (letters, partitions) = (letters.collect(), self.partitions.len() as u64);
        Ok(object(StatusCode::OK, &LettersAnswer { letters, next, partitions }))
    }

    /// Dead letters take effect once, however often this is asked: their number is their message's id. Those that
    /// are no messages of today's rules stay, and those that come meanwhile: one that is sent again may die again.
    pub(super) async fn resend_dead(
        &self,
        query: &BTreeMap<String, String>,
    ) -> Result<Answer, Refused> {
        let only = number(query, "n")?;
        let partition = number(query, "partition")?;
        if only.is_some() && partition.is_none() && self.partitions.len() > 1 {
            return Err(Refused::bad("a number is one of a partition: say `partition` too"));
        }
        let (mut sent, mut left) = (0, 0);
        let all = 0..self.partitions.len() as u32;
        for partition in all.filter(|it| partition.is_none_or(|wanted| wanted == u64::from(*it))) {
            let mut after = only.map_or(0, |n| n.saturating_sub(1));
            let end = match only {
                Some(n) => n,
                None => self.last_dead(partition).await?,
            };
            while after < end {
                let rows = self.blocking(move |store| store.dead(partition, after, PAGE)).await?;
                let Some(last) = rows.last().map(|row| row.n) else { break };
                after = last;
                let wanted = |n: u64| n <= end && only.is_none_or(|only| n == only);
                for row in rows.into_iter().filter(|row| wanted(row.n)) {
                    let Some(mut message) = row.letter.message else {
                        left += 1;
                        continue;
                    };
                    if message.is_kept_change() {
                        // As it is, it would let the rules of its day hold again.
                        message = self.rules().reminder();
                    }
                    let id = [&*partition.to_string(), &*row.n.to_string()];
                    let send = Send {
                        to: one(row.letter.key),
                        priority: Priority::Normal,
                        message,
                        id: Some(message_id(&["dead", id[0], id[1]])),
                    };
                    match self.offer(vec![send]).await {
                        Err(refused) if refused.is_bad() && only.is_none() => {
                            left += 1;
                            continue;
                        }
                        offered => offered?,
                    };
                    let n = row.n;
                    self.blocking(move |store| store.remove_dead(partition, &[n])).await?;
                    sent += 1;
                }
            }
        }
        Ok(object(StatusCode::OK, &SentAnswer { sent, left }))
    }

    /// The number of the last dead letter of a partition; 0 if there is none.
    pub(super) async fn last_dead(&self, partition: u32) -> Result<u64, Refused> {
        let mut last = 0;
        loop {
            let rows = self.blocking(move |store| store.dead(partition, last, PAGE)).await?;
            last = rows.last().map_or(last, |row| row.n);
            if rows.len() < PAGE {
                return Ok(last);
            }
        }
    }

    pub(super) async fn undelivered(
        &self,
        query: &BTreeMap<String, String>,
    ) -> Result<Answer, Refused> {
        let after = number(query, "after")?.unwrap_or(0);
        let rows = self.board.shelf().part(after, PAGE);
        let next = (rows.len() == PAGE).then(|| rows.last().map(|(n, _)| *n)).flatten();
        let notifications = rows.into_iter().map(|(n, kept)| UndeliveredView {
            n,
            destination: kept.destination,
            id: kept.key,
            members: kept.members,
            attempts: kept.attempts,
            is_dead: kept.is_dead,
            cause: kept.cause,
            since_ns: kept.since_ns,
        });
        let notifications = notifications.collect();
        Ok(object(StatusCode::OK, &UndeliveredAnswer { notifications, next }))
    }

    pub(super) async fn resend_undelivered(
        &self,
        query: &BTreeMap<String, String>,
    ) -> Result<Answer, Refused> {
        let only = number(query, "n")?;
        let board = self.board.clone();
        let now = crate::clock::now().as_nanos();
        let sent = tokio::task::spawn_blocking(move || {
            let only = only.map(|n| [n]);
            board.shelf().revive(only.as_ref().map(|it| &it[..]), now)
        });
        let sent = sent
            .await
            .map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        let sent = sent.map_err(|error| Refused::later(format!("cannot be kept: {error}")))?;
        Ok(object(StatusCode::OK, &SentAnswer { sent: sent as u64, left: 0 }))
    }
}
