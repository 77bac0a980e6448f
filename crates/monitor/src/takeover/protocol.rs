//! Hand-over protocol between a gate and its successor, as bytes: plain values and their encoding,
//! without a socket.
//!
//! Each word is a frame: a tag of 1 byte, the length of the rest in 4, the rest. Numbers are
//! big-endian, texts and bytes have their length in 4 bytes before them, lists their count. The first
//! words of both sides, Hello, Welcome and Refused, are the same in every [`FORMAT`], so that a gate of
//! another one is told so.

use crate::config::Mode;
use pgsession::sql::tokens::{Encoding, LexerMode, Strings};
use pgsession::sql::{ExportedSettings, Named, Value};
use pgsession::statements::{ExportedName, ExportedStatement, Shape};
use pgwire::auth::{Credential, Keys};

/// The version of all that is said here. It grows with every change, and with every change of what a
/// statement's scope is computed from.
pub(super) const FORMAT: u32 = 2;

/// The beginning of a Hello.
// Whoever connects by mistake, such as a client of the database, is told from a successor by it.
const GREETING: &[u8; 16] = b"sekisho takeover";

/// The bytes of a frame's tag and length.
pub(super) const HEAD: usize = 5;

/// The largest frame of a gate that hands over, without its head \[byte\]: a statement of the largest
/// size fits, and so does a client with as many names and settings as it may have.
pub(super) const GIVEN_MAX: usize = 4 << 20;

/// The largest frame of a gate that takes over, without its head \[byte\].
pub(super) const TAKEN_MAX: usize = 4 << 10;
// Small: it is believed in little, and asks for the memory of a gate that serves.
const _: () = assert!(12 + WHY_MAX <= TAKEN_MAX && 16 + SECRET_MAX <= TAKEN_MAX, "its words fit");
const _: () = assert!(TAKEN_MAX <= GIVEN_MAX && GIVEN_MAX <= u32::MAX as usize, "a length fits");

/// The longest cause that is told \[byte\].
const WHY_MAX: usize = 1000;

/// The bytes of a key for cancelling, at most, as PostgreSQL has it.
pub(super) const SECRET_MAX: usize = 256;

/// Something that one side says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The successor's first.
    Hello { format: u32 },
    /// The answer: which process hands over.
    Welcome { process: u32 },
    /// The other answer.
    Refused { why: String },
    /// A socket that is listened on goes with it.
    Listener(Place),
    /// That were so many.
    // A socket that the system dropped on the way would be missed by nobody else.
    Listeners { count: u32 },
    /// The successor has read its configuration and has all that it needs.
    Ready,
    /// The predecessor accepts nobody any more.
    Begin,
    /// The successor's loop goes round.
    Serves,
    /// A pool that clients are of.
    Pool(Pool),
    /// A statement that clients have names for.
    Statement { number: u64, statement: ExportedStatement },
    /// A client with nothing under way; its socket goes with it.
    Client(Box<MigratingClient>),
    /// The successor has it, and goes on with it from here.
    Has { number: u64 },
    /// The successor does not take it.
    Declines { number: u64, why: String },
    /// Somebody wants a query cancelled whose client the other side may have.
    Cancel { number: u64, process: u32, secret: Vec<u8> },
    /// That was looked at, and a request to the server is on its way if there was something.
    Cancelled { number: u64 },
    /// The successor ends as it was told to.
    Ending,
    /// The predecessor goes on as if nothing had been, with all clients that the successor has not
    /// said that it has.
    GivenUp { why: String },
    /// The predecessor ends as it should, and has handed over so many clients.
    Ended { handed: u64 },
}

/// The place of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// For clients of the network, at the address that the configuration names.
    Tcp { named: String },
    /// For clients of this machine: the path, and the file's number.
    // By the number whoever ends tells its own file from one that was made there since.
    Unix { path: Vec<u8>, inode: u64 },
    /// For whoever looks at metrics and the live page.
    Http { named: String },
    /// For the next successor.
    Takeover { path: Vec<u8>, inode: u64 },
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// By which its clients name it; told again, it has changed.
    pub(super) number: u32,
    /// The database, by the name that clients know.
    pub(super) database: Vec<u8>,
    pub(super) mode: Mode,
    /// The credential for logins at servers, also from clients that got in.
    // Those do not log in anew: what they brought is known to this process alone.
    pub(super) credential: Credential,
}

/// A client that may migrate: let in, with no server and nothing under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MigratingClient {
    pub(super) number: u64,
    pub(super) pool: u32,
    pub(super) user: Vec<u8>,
    /// Its key for cancelling.
    // It was told at the login, and is told only then: the client goes on to use it.
    pub(super) process: u32,
    pub(super) secret: Vec<u8>,
    /// The chance that it has written something lately that replicas lack.
    pub(super) wrote: Wrote,
    pub(super) settings: ExportedSettings,
    /// Its names for statements, that of the unnamed one empty.
    pub(super) statements: Vec<(Vec<u8>, ExportedName)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    Nothing,
    Perhaps,
}

/// Why bytes are no word, or no word can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("a frame of {len} bytes was announced, and {most} are the most")]
    Long { len: usize, most: usize },
    #[error("nothing has the tag {0}")]
    Tag(u8),
    #[error("a frame with the tag {0} does not hold what it should")]
    Body(u8),
    #[error("a socket is missing, or one came that belongs to nothing")]
    Socket,
}

impl Message {
    fn tag(&self) -> u8 {
        // One each, and never another's in a later format: an old gate refuses what it does not know.
        match self {
            Message::Hello { .. } => b'H',
            Message::Welcome { .. } => b'W',
            Message::Refused { .. } => b'R',
            Message::Listener(_) => b'L',
            Message::Listeners { .. } => b'N',
            Message::Ready => b'Y',
            Message::Begin => b'B',
            Message::Serves => b'S',
            Message::Pool(_) => b'P',
            Message::Statement { .. } => b'T',
            Message::Client(_) => b'C',
            Message::Has { .. } => b'h',
            Message::Declines { .. } => b'd',
            Message::Cancel { .. } => b'c',
            Message::Cancelled { .. } => b'k',
            Message::Ending => b'e',
            Message::GivenUp { .. } => b'G',
            Message::Ended { .. } => b'E',
        }
    }

    /// True if a socket goes with it.
    pub(super) fn has_socket(&self) -> bool {
        matches!(self, Message::Listener(_) | Message::Client(_))
    }

    /// Its frame.
    ///
    /// # Errors
    /// If it is longer than what the other side takes.
    pub(super) fn encode(&self, most: usize) -> Result<Vec<u8>, Malformed> {
        let mut out = Out(vec![self.tag(), 0, 0, 0, 0]);
        match self {
            Message::Hello { format } => {
                out.0.extend_from_slice(GREETING);
                out.u32(*format);
            }
            Message::Welcome { process } => out.u32(*process),
            Message::Refused { why } | Message::GivenUp { why } => out.why(why),
            Message::Listener(place) => out.place(place),
            Message::Listeners { count } => out.u32(*count),
            Message::Ready | Message::Begin | Message::Serves | Message::Ending => {}
            Message::Pool(pool) => out.pool(pool),
            Message::Statement { number, statement } => {
                out.u64(*number);
                out.statement(statement);
            }
            Message::Client(client) => out.client(client),
            Message::Has { number } | Message::Cancelled { number } => out.u64(*number),
            Message::Declines { number, why } => {
                out.u64(*number);
                out.why(why);
            }
            Message::Cancel { number, process, secret } => {
                out.u64(*number);
                out.u32(*process);
                out.bytes(secret);
            }
            Message::Ended { handed } => out.u64(*handed),
        }
        // Here and not by whoever says it: only the bytes tell how long a client with its names is.
        let mut frame = out.0;
        let len = frame.len() - HEAD;
        if len > most {
            return Err(Malformed::Long { len, most });
        }
        frame[1..HEAD].copy_from_slice(&(len as u32).to_be_bytes());
        Ok(frame)
    }

    /// Length of the frame at the front of `readable`, head included; none if its head is not all
    /// there.
    ///
    /// # Errors
    /// If it announces more than `most`.
    pub(super) fn measure(readable: &[u8], most: usize) -> Result<Option<usize>, Malformed> {
        let Some([_, length @ ..]) = readable.first_chunk::<HEAD>() else { return Ok(None) };
        let len = u32::from_be_bytes(*length) as usize;
        // Before it is waited for: the length may be anything, and room would be made for it.
        if len > most {
            return Err(Malformed::Long { len, most });
        }
        Ok(Some(HEAD + len))
    }

    /// The word of a whole frame.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn decode(frame: &[u8]) -> Result<Message, Malformed> {
        let (&tag, rest) = frame.split_first().ok_or(Malformed::Body(0))?;
        let mut body = In(rest.get(HEAD - 1..).ok_or(Malformed::Body(tag))?);
        let message = match tag {
            b'H' => body.greeting(),
            b'W' => body.u32().map(|process| Message::Welcome { process }),
            b'R' => body.why().map(|why| Message::Refused { why }),
            b'L' => body.place().map(Message::Listener),
            b'N' => body.u32().map(|count| Message::Listeners { count }),
            b'Y' => Some(Message::Ready),
            b'B' => Some(Message::Begin),
            b'S' => Some(Message::Serves),
            b'P' => body.pool().map(Message::Pool),
            b'T' => body.numbered_statement(),
            b'C' => body.client().map(|client| Message::Client(Box::new(client))),
            b'h' => body.u64().map(|number| Message::Has { number }),
            b'd' => body.declined(),
            b'c' => body.cancel(),
            b'k' => body.u64().map(|number| Message::Cancelled { number }),
            b'e' => Some(Message::Ending),
            b'G' => body.why().map(|why| Message::GivenUp { why }),
            b'E' => body.u64().map(|handed| Message::Ended { handed }),
            tag => return Err(Malformed::Tag(tag)),
        };
        // Bytes behind it would be of another format: what they change is not known.
        message.filter(|_| body.0.is_empty()).ok_or(Malformed::Body(tag))
    }
}

/// The bytes of a frame that is being written.
struct Out(Vec<u8>);

impl Out {
    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn count(&mut self, count: usize) {
        // What has more is longer than any frame.
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    fn why(&mut self, why: &str) {
        // Causes name files and addresses of any length. Cut, they always fit the frame.
        let mut end = why.len().min(WHY_MAX);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&why.as_bytes()[..end]);
    }

    fn place(&mut self, place: &Place) {
        let mut file = |kind, path: &[u8], inode| {
            self.0.push(kind);
            self.bytes(path);
            self.u64(inode);
        };
        match place {
            Place::Unix { path, inode } => file(1, path, *inode),
            Place::Takeover { path, inode } => file(3, path, *inode),
            Place::Tcp { named } => {
                self.0.push(0);
                self.bytes(named.as_bytes());
            }
            Place::Http { named } => {
                self.0.push(2);
                self.bytes(named.as_bytes());
            }
        }
    }

    fn pool(&mut self, pool: &Pool) {
        self.u32(pool.number);
        self.bytes(&pool.database);
        self.0.push(match pool.mode {
            Mode::Session => 0,
            Mode::Transaction => 1,
            Mode::Statement => 2,
        });
        match &pool.credential {
            Credential::Nothing => self.0.push(0),
            Credential::Password(password) => {
                self.0.push(1);
                self.bytes(password);
            }
            Credential::Md5(hash) => {
                self.0.push(2);
                self.0.extend_from_slice(hash);
            }
            Credential::Keys(keys) => {
                self.0.push(3);
                self.0.extend_from_slice(&keys.client);
                self.0.extend_from_slice(&keys.server);
            }
        }
    }

    fn statement(&mut self, statement: &ExportedStatement) {
        let ExportedStatement { scope, lexer_mode, tail } = statement;
        self.u64(*scope);
        self.0.push(u8::from(lexer_mode.strings == Strings::Backslash));
        self.0.push(u8::from(lexer_mode.encoding == Encoding::AsciiUnsafe));
        self.bytes(tail);
    }

    fn client(&mut self, client: &MigratingClient) {
        self.u64(client.number);
        self.u32(client.pool);
        self.bytes(&client.user);
        self.u32(client.process);
        self.bytes(&client.secret);
        self.0.push(u8::from(client.wrote == Wrote::Perhaps));
        let ExportedSettings { begun, set, reported, first } = &client.settings;
        self.named(begun, Out::value);
        self.named(set, Out::value);
        self.named(reported, |out, value| out.bytes(value));
        self.named(first, |out, value| out.bytes(value));
        self.named(&client.statements, Out::statement_name);
    }

    fn statement_name(&mut self, name: &ExportedName) {
        self.u64(name.number);
        self.0.push(u8::from(name.shape.is_some()));
        if let Some(Shape { parameters, rows }) = name.shape {
            self.u64(parameters);
            self.u64(rows);
        }
    }

    fn named<T>(&mut self, all: &Named<T>, write: impl Fn(&mut Out, &T)) {
        self.count(all.len());
        for (name, value) in all {
            self.bytes(name);
            write(self, value);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Whole(whole) => {
                self.0.push(0);
                self.bytes(whole);
            }
            Value::Items(items) => {
                self.0.push(1);
                self.count(items.len());
                items.iter().for_each(|item| self.bytes(item));
            }
        }
    }
}

/// The rest of a frame that is being read. Whatever it holds, no more is kept of it than it has
/// bytes.
struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        // The length may be anything: no room is made for it, and nothing is read beyond the frame.
        let length = self.u32()? as usize;
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    fn owned(&mut self) -> Option<Vec<u8>> {
        self.bytes().map(<[u8]>::to_vec)
    }

    fn text(&mut self) -> Option<String> {
        std::str::from_utf8(self.bytes()?).ok().map(str::to_owned)
    }

    fn why(&mut self) -> Option<String> {
        self.text().filter(|why| why.len() <= WHY_MAX)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        // A value of another format is refused: taken for a known one, it would mean something else.
        let at = self.u8()?;
        all.get(usize::from(at)).copied()
    }

    fn greeting(&mut self) -> Option<Message> {
        // Compared before the format: only who says this is told to be of another one.
        let is_ours = self.array().is_some_and(|greeting| greeting == *GREETING);
        let format = self.u32()?;
        is_ours.then_some(Message::Hello { format })
    }

    fn place(&mut self) -> Option<Place> {
        match self.u8()? {
            0 => Some(Place::Tcp { named: self.text()? }),
            1 => Some(Place::Unix { path: self.owned()?, inode: self.u64()? }),
            2 => Some(Place::Http { named: self.text()? }),
            3 => Some(Place::Takeover { path: self.owned()?, inode: self.u64()? }),
            _ => None,
        }
    }

    fn pool(&mut self) -> Option<Pool> {
        Some(Pool {
            number: self.u32()?,
            database: self.owned()?,
            mode: self.one_of(&[Mode::Session, Mode::Transaction, Mode::Statement])?,
            credential: match self.u8()? {
                0 => Credential::Nothing,
                1 => Credential::Password(self.owned()?),
                2 => Credential::Md5(self.array()?),
                3 => Credential::Keys(Keys { client: self.array()?, server: self.array()? }),
                _ => return None,
            },
        })
    }

    fn numbered_statement(&mut self) -> Option<Message> {
        let number = self.u64()?;
        let scope = self.u64()?;
        let strings = self.one_of(&[Strings::Standard, Strings::Backslash])?;
        let encoding = self.one_of(&[Encoding::AsciiSafe, Encoding::AsciiUnsafe])?;
        let (lexer_mode, tail) = (LexerMode { strings, encoding }, self.owned()?);
        Some(Message::Statement {
            number,
            statement: ExportedStatement { scope, lexer_mode, tail },
        })
    }

    fn client(&mut self) -> Option<MigratingClient> {
        Some(MigratingClient {
            number: self.u64()?,
            pool: self.u32()?,
            user: self.owned()?,
            process: self.u32()?,
            secret: self.bytes().filter(|secret| secret.len() <= SECRET_MAX)?.to_vec(),
            wrote: self.one_of(&[Wrote::Nothing, Wrote::Perhaps])?,
            settings: ExportedSettings {
                begun: self.named(In::value)?,
                set: self.named(In::value)?,
                reported: self.named(In::owned)?,
                first: self.named(In::owned)?,
            },
            statements: self.named(In::statement_name)?,
        })
    }

    fn statement_name(&mut self) -> Option<ExportedName> {
        let number = self.u64()?;
        let shape = match self.one_of(&[false, true])? {
            true => Some(Shape { parameters: self.u64()?, rows: self.u64()? }),
            false => None,
        };
        Some(ExportedName { number, shape })
    }

    fn declined(&mut self) -> Option<Message> {
        Some(Message::Declines { number: self.u64()?, why: self.why()? })
    }

    fn cancel(&mut self) -> Option<Message> {
        let (number, process) = (self.u64()?, self.u32()?);
        // No client has a longer one, and each is kept until it was looked at.
        let secret = self.bytes().filter(|secret| secret.len() <= SECRET_MAX)?.to_vec();
        Some(Message::Cancel { number, process, secret })
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // Not with room for so many: the count may be anything, and the bytes end before it does.
        let count = self.u32()?;
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(read(self)?);
        }
        Some(all)
    }

    fn named<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Named<T>> {
        self.list(|one| Some((one.owned()?, read(one)?)))
    }

    fn value(&mut self) -> Option<Value> {
        match self.u8()? {
            0 => self.owned().map(Value::Whole),
            1 => self.list(In::owned).map(Value::Items),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chance that a seed makes, xorshift64*.
    struct Chance(u64);

    impl Chance {
        fn number(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
        }

        fn below(&mut self, most: usize) -> usize {
            (self.number() >> 33) as usize % most
        }

        fn bytes(&mut self) -> Vec<u8> {
            (0..self.below(12)).map(|_| self.number() as u8).collect()
        }

        fn text(&mut self) -> String {
            (0..self.below(9)).map(|_| ['a', ':', '0', 'é'][self.below(4)]).collect()
        }

        fn named<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Named<T> {
            (0..self.below(4)).map(|_| (self.bytes(), one(self))).collect()
        }

        fn value(&mut self) -> Value {
            match self.below(2) {
                0 => Value::Whole(self.bytes()),
                _ => Value::Items((0..self.below(4)).map(|_| self.bytes()).collect()),
            }
        }

        fn credential(&mut self) -> Credential {
            let mut hash = [0; 32];
            hash.iter_mut().for_each(|byte| *byte = self.number() as u8);
            match self.below(4) {
                0 => Credential::Nothing,
                1 => Credential::Password(self.bytes()),
                2 => Credential::Md5(hash),
                _ => Credential::Keys(Keys { client: hash, server: [hash[0]; 32] }),
            }
        }

        fn place(&mut self) -> Place {
            match self.below(4) {
                0 => Place::Tcp { named: self.text() },
                1 => Place::Unix { path: self.bytes(), inode: self.number() },
                2 => Place::Http { named: self.text() },
                _ => Place::Takeover { path: self.bytes(), inode: self.number() },
            }
        }

        fn statement_name(&mut self) -> ExportedName {
            let shape = Shape { parameters: self.number(), rows: self.number() };
            ExportedName { number: self.number(), shape: [None, Some(shape)][self.below(2)] }
        }

        fn client(&mut self) -> MigratingClient {
            MigratingClient {
                number: self.number(),
                pool: self.number() as u32,
                user: self.bytes(),
                process: self.number() as u32,
                secret: self.bytes(),
                wrote: [Wrote::Nothing, Wrote::Perhaps][self.below(2)],
                settings: ExportedSettings {
                    begun: self.named(Chance::value),
                    set: self.named(Chance::value),
                    reported: self.named(Chance::bytes),
                    first: self.named(Chance::bytes),
                },
                statements: self.named(Chance::statement_name),
            }
        }

        fn message(&mut self) -> Message {
            let number = self.number();
            match self.below(18) {
                0 => Message::Hello { format: number as u32 },
                1 => Message::Welcome { process: number as u32 },
                2 => Message::Refused { why: self.text() },
                3 => Message::Listener(self.place()),
                4 => Message::Listeners { count: number as u32 },
                5 => Message::Ready,
                6 => Message::Begin,
                7 => Message::Serves,
                8 => Message::Pool(Pool {
                    number: number as u32,
                    database: self.bytes(),
                    mode: [Mode::Session, Mode::Transaction, Mode::Statement][self.below(3)],
                    credential: self.credential(),
                }),
                9 => {
                    let strings = [Strings::Standard, Strings::Backslash][self.below(2)];
                    let encoding = [Encoding::AsciiSafe, Encoding::AsciiUnsafe][self.below(2)];
                    let (lexer_mode, tail) = (LexerMode { strings, encoding }, self.bytes());
                    let statement = ExportedStatement { scope: self.number(), lexer_mode, tail };
                    Message::Statement { number, statement }
                }
                10 => Message::Client(Box::new(self.client())),
                11 => Message::Has { number },
                12 => Message::Declines { number, why: self.text() },
                13 => {
                    Message::Cancel { number, process: self.number() as u32, secret: self.bytes() }
                }
                14 => Message::Cancelled { number },
                15 => Message::Ending,
                16 => Message::GivenUp { why: self.text() },
                _ => Message::Ended { handed: number },
            }
        }
    }

    #[test]
    fn every_word_is_read_as_it_was_said() {
        for seed in 1..4000 {
            let message = Chance(seed).message();
            let frame = message.encode(GIVEN_MAX).unwrap();
            assert_eq!(Message::measure(&frame, GIVEN_MAX), Ok(Some(frame.len())), "seed {seed}");
            assert_eq!(Message::decode(&frame), Ok(message), "seed {seed}");
            for end in 0..frame.len() {
                let measured = Message::measure(&frame[..end], GIVEN_MAX).unwrap();
                assert_eq!(measured, (end >= HEAD).then_some(frame.len()), "seed {seed}");
                assert!(Message::decode(&frame[..end]).is_err(), "seed {seed}: cut at {end}");
            }
        }
    }

    /// What is read of damaged bytes would be written so, but for the length in the head: nothing is
    /// made up, and nothing passes that is not understood.
    #[test]
    fn damaged_bytes_are_refused_or_say_what_they_say() {
        let mut read = 0;
        for seed in 1..20_000 {
            let mut chance = Chance(seed);
            let mut frame = chance.message().encode(GIVEN_MAX).unwrap();
            for _ in 0..=chance.below(3) {
                match chance.below(3) {
                    0 => frame.truncate(chance.below(frame.len() + 1)),
                    1 => frame.push(chance.number() as u8),
                    _ if frame.is_empty() => {}
                    _ => {
                        let at = chance.below(frame.len());
                        frame[at] = [0, 1, 0xff, chance.number() as u8][chance.below(4)];
                    }
                }
            }
            if let Ok(message) = Message::decode(&frame) {
                let again = message.encode(GIVEN_MAX).unwrap();
                assert_eq!(again[0], frame[0], "seed {seed}");
                assert_eq!(again[HEAD..], frame[HEAD..], "seed {seed}");
                read += 1;
            }
        }
        assert!(read > 1000, "{read}: some damage is none");
    }

    #[test]
    fn what_is_too_long_is_neither_said_nor_waited_for() {
        let secret = vec![0; SECRET_MAX];
        let message = Message::Cancel { number: 1, process: 2, secret };
        assert!(message.encode(TAKEN_MAX).is_ok());
        let tail = vec![0; TAKEN_MAX];
        let statement = ExportedStatement { scope: 1, lexer_mode: LexerMode::default(), tail };
        let long = Message::Statement { number: 1, statement };
        assert!(matches!(long.encode(TAKEN_MAX), Err(Malformed::Long { .. })));
        let head = [b'c', 0, 0, 0x10, 1];
        let announced = Malformed::Long { len: 4097, most: 4096 };
        assert_eq!(Message::measure(&head, TAKEN_MAX), Err(announced));
        let why = "é".repeat(WHY_MAX);
        let frame = Message::Refused { why }.encode(TAKEN_MAX).unwrap();
        let Ok(Message::Refused { why }) = Message::decode(&frame) else { panic!("it is cut") };
        assert_eq!(why, "é".repeat(WHY_MAX / 2));
        // A list that claims to be endless takes no more room than its bytes.
        let mut frame = Message::Client(Box::new(Chance(1).client())).encode(GIVEN_MAX).unwrap();
        frame.truncate(HEAD + 12);
        frame.extend_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(Message::decode(&frame), Err(Malformed::Body(b'C')));
    }
}
