//! The bytes of what a store keeps, the same in each: a version byte, then fields of varying length. A
//! record of a later version is refused by name, not misread.

use std::sync::Arc;
use std::time::Duration;

use agents::{
    Audience, Bound, Cursor, DeadLetter, Delivery, Destination, Entry, Envelope, Header, Key,
    MessageId, Notification, NotificationKey, Outgoing, PassCursor, Priority, Seq, Timer,
    TimerName,
};
use gate::Time;

use crate::content::Content;

/// The version of all records.
const VERSION: u8 = 1;

/// The cause why bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodecError {
    #[error("it was written by a later version ({0}; this one knows {VERSION}): use that one")]
    Later(u8),
    #[error("{0}")]
    Damaged(&'static str),
    #[error("the content of a message cannot be read: {0}")]
    Content(String),
}

/// A record that is written: the bytes so far.
pub(crate) struct Writer<'a>(&'a mut Vec<u8>);

impl<'a> Writer<'a> {
    /// A record with its version byte.
    pub(crate) fn new(to: &'a mut Vec<u8>) -> Writer<'a> {
        to.push(VERSION);
        Writer(to)
    }

    /// More fields of a record that was begun.
    pub(crate) fn more(to: &'a mut Vec<u8>) -> Writer<'a> {
        Writer(to)
    }

    /// Seven bits a byte, the lowest first; all but the last have the eighth.
    pub(crate) fn number(&mut self, mut n: u64) -> &mut Self {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
        self
    }

    /// Small numbers of either sign become small numbers.
    fn signed(&mut self, n: i64) -> &mut Self {
        self.number(((n << 1) ^ (n >> 63)) as u64)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Content up to the end of the record.
    fn content<M: Content>(&mut self, message: &M) {
        message.encode(self.0);
    }
}

/// A record that is read: the bytes that are left.
pub(crate) struct Reader<'a>(&'a [u8]);

const SHORT: CodecError = CodecError::Damaged("it ends too early");
const UNKNOWN: CodecError = CodecError::Damaged("it has a part of an unknown kind");

impl<'a> Reader<'a> {
    /// A record after its version byte.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Reader<'a>, CodecError> {
        match bytes.split_first() {
            Some((&VERSION, rest)) => Ok(Reader(rest)),
            Some((&0, _)) => Err(CodecError::Damaged("its version is 0")),
            Some((&other, _)) => Err(CodecError::Later(other)),
            None => Err(SHORT),
        }
    }

    pub(crate) fn number(&mut self) -> Result<u64, CodecError> {
        let mut n = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(SHORT)?;
            self.0 = rest;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return Err(CodecError::Damaged("it has a number above 64 bits"));
            }
            n |= part << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(CodecError::Damaged("it has a number without an end"))
    }

    fn signed(&mut self) -> Result<i64, CodecError> {
        let n = self.number()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Result<T, CodecError> {
        let large = CodecError::Damaged("it has a number that is too large");
        T::try_from(self.number()?).map_err(|_| large)
    }

    fn seq(&mut self) -> Result<Seq, CodecError> {
        self.number().map(Seq)
    }

    /// True if nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], CodecError> {
        let len: usize = self.small()?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(SHORT)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A number of things, each of at least so many bytes: a false one cannot ask for more memory than
    /// the record has.
    fn count(&mut self, each_min: usize) -> Result<usize, CodecError> {
        let count: usize = self.small()?;
        if count > self.0.len() / each_min { Err(SHORT) } else { Ok(count) }
    }

    fn content<M: Content>(self) -> Result<M, CodecError> {
        M::decode(self.0).map_err(CodecError::Content)
    }

    pub(crate) fn end(self) -> Result<(), CodecError> {
        let over = CodecError::Damaged("it has bytes after its end");
        if self.0.is_empty() { Ok(()) } else { Err(over) }
    }

    /// The bytes that are left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}

fn priority_of(n: u64) -> Result<Priority, CodecError> {
    match n {
        0 => Ok(Priority::Low),
        1 => Ok(Priority::Normal),
        2 => Ok(Priority::High),
        3 => Ok(Priority::Urgent),
        _ => Err(UNKNOWN),
    }
}

/// Adds a header; what follows it in the same record is read by [`header`] too.
pub(crate) fn put_header(header: &Header, to: &mut Vec<u8>) {
    let mut w = Writer::new(to);
    w.number(u64::from(header.version)).number(u64::from(header.armed));
    for seq in header.applied.iter().chain(&header.heard) {
        w.number(seq.0);
    }
    w.number(header.born.0).number(header.fired).number(header.bounds.len() as u64);
    for bound in &header.bounds {
        w.number(u64::from(bound.symbol)).signed(bound.low).signed(bound.high);
    }
}

/// A header, and the bytes after it.
pub(crate) fn header(bytes: &[u8]) -> Result<(Header, &[u8]), CodecError> {
    let mut r = Reader::new(bytes)?;
    let (version, armed) = (r.small()?, r.number()? != 0);
    let mut header = Header { version, armed, ..Header::default() };
    for seq in header.applied.iter_mut().chain(&mut header.heard) {
        *seq = r.seq()?;
    }
    (header.born, header.fired) = (r.seq()?, r.number()?);
    for _ in 0..r.count(3)? {
        let (symbol, low, high) = (r.small()?, r.signed()?, r.signed()?);
        header.bounds.push(Bound { symbol, low, high });
    }
    Ok((header, r.rest()))
}

/// A message of the log without its position.
pub(crate) fn put_entry<M: Content>(entry: &Entry<M>, to: &mut Vec<u8>) {
    let envelope = &entry.envelope;
    let mut w = Writer::new(to);
    w.number(entry.at.as_nanos()).number(envelope.sender).number(envelope.priority as u64);
    w.number(match envelope.audience {
        Audience::Everyone => 0,
        Audience::Armed => 1,
    });
    match envelope.id {
        None => w.number(0),
        Some(id) => w.number(1).number((id.0 >> 64) as u64).number(id.0 as u64),
    };
    match &envelope.to {
        Destination::One(key) => w.number(0).number(key.0),
        Destination::Keys(keys) => {
            w.number(1).number(keys.len() as u64);
            keys.iter().fold(&mut w, |w, key| w.number(key.0))
        }
        Destination::Range(from, to) => w.number(2).number(from.0).number(to.0),
        Destination::All => w.number(3),
        Destination::Crossed { symbol, price } => {
            w.number(4).number(u64::from(*symbol)).signed(*price)
        }
    };
    w.content(&envelope.message);
}

pub(crate) fn entry<M: Content>(seq: Seq, bytes: &[u8]) -> Result<Entry<M>, CodecError> {
    let mut r = Reader::new(bytes)?;
    let (at, sender) = (Time::from_nanos(r.number()?), r.number()?);
    let priority = priority_of(r.number()?)?;
    let audience = match r.number()? {
        0 => Audience::Everyone,
        1 => Audience::Armed,
        _ => return Err(UNKNOWN),
    };
    let id = match r.number()? {
        0 => None,
        1 => Some(MessageId(u128::from(r.number()?) << 64 | u128::from(r.number()?))),
        _ => return Err(UNKNOWN),
    };
    let to = match r.number()? {
        0 => Destination::One(Key(r.number()?)),
        1 => {
            let count = r.count(1)?;
            let keys = (0..count).map(|_| r.number().map(Key)).collect::<Result<Vec<_>, _>>()?;
            Destination::Keys(Arc::from(keys))
        }
        2 => Destination::Range(Key(r.number()?), Key(r.number()?)),
        3 => Destination::All,
        4 => Destination::Crossed { symbol: r.small()?, price: r.signed()? },
        _ => return Err(UNKNOWN),
    };
    let message = r.content()?;
    Ok(Entry { seq, at, envelope: Envelope { id, sender, to, audience, priority, message } })
}

/// A sent message without its number.
pub(crate) fn put_outgoing<M: Content>(one: &Outgoing<M>, to: &mut Vec<u8>) {
    let mut w = Writer::new(to);
    w.number(one.from.0).number(one.to.0).number(one.priority as u64).content(&one.message);
}

pub(crate) fn outgoing<M: Content>(n: u64, bytes: &[u8]) -> Result<Outgoing<M>, CodecError> {
    let mut r = Reader::new(bytes)?;
    let (from, to) = (Key(r.number()?), Key(r.number()?));
    let priority = priority_of(r.number()?)?;
    Ok(Outgoing { n, from, to, priority, message: r.content()? })
}

/// A notification without its number.
pub(crate) fn put_notification(one: &Notification, to: &mut Vec<u8>) {
    let NotificationKey { rule, version, agent, life, firing } = one.key;
    let mut w = Writer::new(to);
    w.number(u64::from(rule)).number(u64::from(version)).number(agent.0);
    w.number(life.0).number(firing).bytes(&one.payload);
}

pub(crate) fn notification(n: u64, bytes: &[u8]) -> Result<Notification, CodecError> {
    let mut r = Reader::new(bytes)?;
    let (rule, version, agent) = (r.small()?, r.small()?, Key(r.number()?));
    let key = NotificationKey { rule, version, agent, life: r.seq()?, firing: r.number()? };
    let payload = r.bytes()?.to_vec();
    r.end()?;
    Ok(Notification { n, key, payload })
}

/// A dead letter without its number.
pub(crate) fn put_dead<M: Content>(letter: &DeadLetter<M>, to: &mut Vec<u8>) {
    let mut w = Writer::new(to);
    w.number(letter.key.0);
    match letter.delivery {
        Delivery::Message(priority, seq) => w.number(0).number(priority as u64).number(seq.0),
        Delivery::Multicast(priority, seq) => w.number(1).number(priority as u64).number(seq.0),
        Delivery::Timer(name, due) => w.number(2).number(name.0).number(due.as_nanos()),
    };
    w.bytes(letter.reason.as_bytes()).number(u64::from(letter.message.is_some()));
    if let Some(message) = &letter.message {
        w.content(message);
    }
}

pub(crate) fn dead<M: Content>(bytes: &[u8]) -> Result<DeadLetter<M>, CodecError> {
    let mut r = Reader::new(bytes)?;
    let key = Key(r.number()?);
    let delivery = match r.number()? {
        0 => Delivery::Message(priority_of(r.number()?)?, r.seq()?),
        1 => Delivery::Multicast(priority_of(r.number()?)?, r.seq()?),
        2 => Delivery::Timer(TimerName(r.number()?), Time::from_nanos(r.number()?)),
        _ => return Err(UNKNOWN),
    };
    let reason = std::str::from_utf8(r.bytes()?);
    let reason = reason.map_err(|_| CodecError::Damaged("its reason is no text"))?.to_owned();
    let message = match r.number()? {
        0 => r.end().map(|()| None)?,
        1 => Some(r.content()?),
        _ => return Err(UNKNOWN),
    };
    Ok(DeadLetter { key, delivery, message, reason })
}

pub(crate) fn put_timer(timer: Timer, to: &mut Vec<u8>) {
    let mut w = Writer::new(to);
    w.number(timer.due.as_nanos());
    match timer.every {
        None => w.number(0),
        Some(span) => w.number(1).number(nanos(span)),
    };
}

pub(crate) fn timer(bytes: &[u8]) -> Result<Timer, CodecError> {
    let mut r = Reader::new(bytes)?;
    let due = Time::from_nanos(r.number()?);
    let every = match r.number()? {
        0 => None,
        1 => Some(Duration::from_nanos(r.number()?)),
        _ => return Err(UNKNOWN),
    };
    r.end()?;
    Ok(Timer { due, every })
}

/// A span in nanoseconds; one above 584 years is that long, as the core takes it too.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn put_cursor(cursor: &Cursor, to: &mut Vec<u8>) {
    let mut w = Writer::new(to);
    w.number(cursor.low.0).number(cursor.spanned.0).number(cursor.trimmed.0);
    w.number(cursor.relayed).number(cursor.notified).number(cursor.sent);
    match cursor.pass {
        None => w.number(0),
        Some(pass) => w.number(1).number(pass.until.0).number(pass.position.0),
    };
}

pub(crate) fn cursor(bytes: &[u8]) -> Result<Cursor, CodecError> {
    let mut r = Reader::new(bytes)?;
    let (low, spanned, trimmed) = (r.seq()?, r.seq()?, r.seq()?);
    let (relayed, notified, sent) = (r.number()?, r.number()?, r.number()?);
    let pass = match r.number()? {
        0 => None,
        1 => Some(PassCursor { until: r.seq()?, position: Key(r.number()?) }),
        _ => return Err(UNKNOWN),
    };
    r.end()?;
    Ok(Cursor { low, spanned, pass, trimmed, relayed, notified, sent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> Vec<u8> {
        let envelope = Envelope {
            id: Some(MessageId(u128::MAX)),
            sender: u64::MAX,
            to: Destination::Keys(Arc::from([Key(1), Key(u64::MAX)])),
            audience: Audience::Armed,
            priority: Priority::Urgent,
            message: vec![1_u8, 2, 3],
        };
        let mut bytes = Vec::new();
        put_entry(&Entry { seq: Seq(1), at: Time::from_nanos(5), envelope }, &mut bytes);
        bytes
    }

    #[test]
    fn a_record_of_a_later_version_is_named() {
        let mut bytes = envelope();
        bytes[0] = 2;
        let error = entry::<Vec<u8>>(Seq(1), &bytes).unwrap_err();
        assert_eq!(error, CodecError::Later(2));
        assert!(error.to_string().contains("a later version (2; this one knows 1)"), "{error}");
    }

    /// A disk's fault must not become a panic, nor an allocation that the record has no bytes for.
    #[test]
    fn damaged_records_are_errors_or_other_records() {
        let bytes = envelope();
        let content = 3;
        for len in 0..bytes.len() - content {
            assert!(entry::<Vec<u8>>(Seq(1), &bytes[..len]).is_err(), "{len}");
        }
        for at in 0..bytes.len() {
            for flip in 1..=u8::MAX {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let _ = (entry::<Vec<u8>>(Seq(1), &damaged), header(&damaged), timer(&damaged));
                let _ = (cursor(&damaged), notification(1, &damaged), dead::<Vec<u8>>(&damaged));
            }
        }
        let mut many = vec![VERSION];
        let mut w = Writer(&mut many);
        w.number(5).number(1).number(1).number(0).number(0).number(1).number(u64::MAX >> 1);
        assert_eq!(entry::<Vec<u8>>(Seq(1), &many).unwrap_err(), SHORT);
    }

    #[test]
    fn numbers_of_every_size_come_back() {
        for shift in 0..64 {
            for n in [u64::MAX >> shift, 1 << shift] {
                let mut bytes = Vec::new();
                Writer::new(&mut bytes).number(n).signed(n as i64);
                let mut r = Reader::new(&bytes).unwrap();
                assert_eq!((r.number().unwrap(), r.signed().unwrap()), (n, n as i64));
                r.end().unwrap();
            }
        }
    }
}
