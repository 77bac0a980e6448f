//! Beginning, course and end of a thread's requests on HTTP/2 connections.
//!
//! A client or an arrival takes a stream of the first connection that has room, or of a new one. What the
//! server says that it has not touched (a refused stream, a GOAWAY that leaves the request out) is sent once
//! more, its time running on; what was lost with a connection that had served before is, too, unless its method
//! may not be repeated.

use std::time::Duration;

use gate::Time;
use measure::ErrorKind;

use super::budget::{Room, allowed_at_first, place};
use super::ended::{Done, Ended};
use super::link::{Answered, Keep, Link, News, StreamBounds, Turned};
use crate::http::conn::{Request, Retry};
use crate::http::exchange::After;
use crate::http::plan::Protocol;
use crate::http::worker::Worker;
use crate::sys;

/// The HTTP/2 connections of a thread.
#[derive(Default)]
pub(in crate::http) struct Links {
    all: Vec<Option<Box<Link>>>,
    /// The generation of the next connection in each place.
    generations: Vec<u32>,
    /// Places of connections that were asked something since their last turn.
    asked: Vec<u32>,
    news: Vec<News>,
    /// Streams that the server allowed on the last connection that was known.
    allowed: Option<u32>,
}

impl Links {
    /// True if a connection was asked something, and has not been turned since.
    pub(in crate::http) fn has_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    fn token(&self, slot: u32) -> u64 {
        u64::from(self.generations[slot as usize]) << 32 | u64::from(slot)
    }
}

impl Worker<'_> {
    /// Puts a request on a connection; it is sent when the thread has begun all that is due.
    pub(in crate::http) fn stream(&mut self, request: Request, now: Time) {
        let Protocol::Http2 { streams_max } = self.post.plan.spec.protocol else {
            unreachable!("a plan of HTTP/1 has no streams")
        };
        // The first with room is enough: each look at a room takes a lock of its connection.
        let room_of = |link: &Option<Box<Link>>| link.as_ref().map(|link| link.room());
        let slot = match place(self.links.all.iter().map(room_of)) {
            Some(slot) => slot as u32,
            None => match self.connect() {
                Ok(stream) => {
                    let allowed = self.links.allowed.unwrap_or(streams_max);
                    let rooms: Vec<Option<Room>> = self.links.all.iter().map(room_of).collect();
                    let first = allowed_at_first(&rooms).unwrap_or(allowed).min(streams_max);
                    self.links.allowed = Some(first);
                    let bounds = StreamBounds { most: streams_max, first };
                    let mut link = Box::new(Link::new(stream, bounds, Keep::Nothing, now));
                    link.class = request.class;
                    self.put(link)
                }
                Err(broken) => {
                    self.note_exhaustion(&broken);
                    return self.fail(request, broken.kind(false));
                }
            },
        };
        let form = self.post.plan.messages[request.ask as usize].form.clone();
        let form = *form.expect("a plan of HTTP/2 has a form of each request");
        if let Some(link) = &mut self.links.all[slot as usize] {
            link.ask(request, form);
        }
        if !self.links.asked.contains(&slot) {
            self.links.asked.push(slot);
        }
    }

    fn put(&mut self, link: Box<Link>) -> u32 {
        let links = &mut self.links;
        let free = links.all.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            links.all.push(None);
            links.generations.push(0);
            links.all.len() - 1
        });
        links.all[slot] = Some(link);
        slot as u32
    }

    /// Turns the connections that were asked something.
    pub(in crate::http) fn turn_asked(&mut self) {
        for slot in std::mem::take(&mut self.links.asked) {
            self.turn_link(slot);
        }
    }

    /// The socket of a connection is ready.
    pub(in crate::http) fn handle_link(&mut self, token: u64) {
        let slot = token as u32;
        let stands = (slot as usize) < self.links.all.len() && self.links.token(slot) == token;
        if stands {
            self.turn_link(slot);
        }
    }

    fn turn_link(&mut self, slot: u32) {
        // Out of its place, so that the clock, which hands over intervals, can be read meanwhile.
        let Some(mut link) = self.links.all[slot as usize].take() else { return };
        let mut news = std::mem::take(&mut self.links.news);
        let turned = link.turn(&mut || self.clock(), &mut news);
        let (opened_at, class, served) = (link.opened_at, link.class, link.served);
        let token = self.links.token(slot);
        let watched = turned != Turned::Closed && self.watch(&mut link, token);
        match turned {
            Turned::Closed => self.forget(slot),
            _ if !watched => {
                self.tally.odd.no_descriptors += 1;
                self.forget(slot);
                for request in link.give_up(|_| true) {
                    self.fail(request, ErrorKind::ConnectOther);
                }
            }
            turned => {
                self.links.all[slot as usize] = Some(link);
                if turned == Turned::Unfinished {
                    self.unfinished.push(token);
                }
            }
        }
        for one in news.drain(..) {
            match one {
                News::Opened => {
                    let span = self.clock().since(opened_at);
                    self.tally.connects += 1;
                    self.tally.classes[class as usize].connect.record(span);
                }
                News::Answered(answered) => self.answered(&answered),
                News::Failed(request, ended) => self.stream_ended(request, ended, served > 0),
                News::Unsent(request) => {
                    let now = self.clock();
                    self.stream(request, now);
                }
                News::GoAway(frame) => *self.tally.frames.entry(frame).or_default() += 1,
            }
        }
        self.links.news = news;
    }

    /// The place is free for another connection; late events name this one.
    fn forget(&mut self, slot: u32) {
        let generation = &mut self.links.generations[slot as usize];
        *generation = generation.wrapping_add(1);
    }

    /// Tells epoll what the connection waits for; false if it cannot be watched.
    fn watch(&mut self, link: &mut Link, token: u64) -> bool {
        let interest = if link.waits_to_write() { sys::IN | sys::OUT } else { sys::IN };
        if link.interest == interest {
            return true;
        }
        let told = match link.interest {
            0 => self.epoll.add(link.fd(), interest, token),
            _ => self.epoll.change(link.fd(), interest, token),
        };
        link.interest = interest;
        told.is_ok()
    }

    fn answered(&mut self, answered: &Answered) {
        let now = self.clock();
        let Answered { request, status, bytes, length, .. } = *answered;
        // Without an announcement the size is what came.
        self.count(request, status, bytes, length.or(Some(bytes)), now);
        self.release(crate::http::conn::NONE, now, After::Response);
    }

    fn stream_ended(&mut self, request: Request, ended: Ended, has_served: bool) {
        if let Some(frame @ super::ended::Frame::Reset(_)) = ended.frame {
            *self.tally.frames.entry(frame).or_default() += 1;
        }
        let stale = has_served && request.first_byte.is_none();
        let again = match (ended.done, request.retry) {
            (Done::Nothing, Retry::Allowed | Retry::Untouched) => true,
            (Done::Unknown, Retry::Allowed) => stale,
            _ => false,
        };
        if !again {
            return self.fail(request, ended.kind);
        }
        self.tally.odd.retried += 1;
        let now = self.clock();
        self.stream(Request { retry: Retry::Used, ..request }, now);
    }

    /// Fails the requests on HTTP/2 connections that took too long.
    pub(in crate::http) fn fail_overdue_streams(&mut self, now: Time) {
        let spec = &self.post.plan.spec;
        let (connect_max, response_max) = (spec.connect_max, spec.response_max);
        for slot in 0..self.links.all.len() as u32 {
            let Some(link) = &mut self.links.all[slot as usize] else { continue };
            let late = |request: &Request, limit: Duration| now.since(request.began) >= limit;
            if link.is_opening() {
                if now.since(link.opened_at) >= connect_max {
                    let given_up = link.give_up(|_| true);
                    self.links.all[slot as usize] = None;
                    self.forget(slot);
                    for request in given_up {
                        self.fail(request, ErrorKind::ConnectTimeout);
                    }
                }
                continue;
            }
            let given_up = link.give_up(|request| late(request, response_max));
            let asks = link.listen(now, response_max);
            if !given_up.is_empty() || asks {
                // The server is told that nobody waits any more, or is asked whether it is there.
                self.links.asked.push(slot);
            }
            for request in given_up {
                self.fail(request, ErrorKind::Timeout);
            }
            self.close_vanished(slot, now);
        }
    }

    /// Closes a connection whose peer has vanished, once its requests have timed out, each in its own time, as
    /// those on connections of their own do. Until then it takes no other.
    fn close_vanished(&mut self, slot: u32, now: Time) {
        let response_max = self.post.plan.spec.response_max;
        let vanished = |links: &Links| {
            let link = links.all[slot as usize].as_ref();
            link.is_some_and(|link| link.has_vanished())
        };
        if !vanished(&self.links) {
            return;
        }
        // This thread may have been the one that stood still: the answer may lie in the socket.
        self.turn_link(slot);
        if let Some(link) = &mut self.links.all[slot as usize] {
            link.listen(now, response_max);
        }
        let is_empty = self.links.all[slot as usize].as_ref().is_some_and(|link| link.is_empty());
        if vanished(&self.links) && is_empty {
            self.links.all[slot as usize] = None;
            self.forget(slot);
            self.tally.odd.vanished += 1;
        }
    }
}
