//! Writes what clients say: sessions of chance that are valid in their order, of all that the protocol
//! has, each with values that nobody else has ever asked for.

use monitor::Mode;
use pgwire::frame::Frontend;
use pgwire::message::write;

use pgtest::Chance;
use pgtest::script::{
    again, bare, bind, close, describe, execute, named, parse, query, rows, runs, sync,
};

/// What some clients say at once, and of which one number replays it.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) seed: u64,
    pub(super) clients: Vec<Vec<Session>>,
}

/// What a client says on one connection.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) parameters: Vec<(&'static str, String)>,
    pub(super) rounds: Vec<Round>,
    pub(super) end: End,
}

/// What is said, and all of whose replies are heard, before more is said.
#[derive(Clone)]
pub(super) struct Round {
    pub(super) parts: Vec<Part>,
    pub(super) wait: Wait,
}

/// Messages, and the replies of which one is awaited before the next part is said.
#[derive(Clone, Default)]
pub(super) struct Part {
    pub(super) messages: Vec<Vec<u8>>,
    pub(super) until: Option<&'static [u8]>,
}

/// How the end of a round's replies is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// By as many ReadyForQuery.
    Ready(usize),
    /// By the reply to a mark that is said behind all.
    Mark,
    /// As the first, but the query at the end is cancelled after some milliseconds.
    Cancelled { ready: usize, after: u64 },
}

/// How a client leaves.
#[derive(Clone, Debug)]
pub(super) enum End {
    Terminates,
    /// Without a word.
    Closes,
    /// Behind some bytes of what it had to say.
    Cut(Vec<u8>),
}

/// The clients of a case.
pub(super) fn case(seed: u64, mode: Mode, clients: usize) -> Case {
    let mut chance = Chance::of(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let clients = (0..clients).map(|client| {
        let mut author =
            Author { chance: &mut chance, mode, seed, client, said: 0, began: Began::Plainly };
        (0..=author.below(2)).map(|_| author.session()).collect()
    });
    Case { seed, clients: clients.collect() }
}

/// What only this client of this case may read.
pub(super) fn nonce_of(seed: u64, client: usize) -> String {
    format!("~{seed:x}.{client}.")
}

const NAMES: [&str; 4] = ["", "a", "b", "c"];
const PORTALS: [&str; 3] = ["", "p", "q"];

/// Whether a session began with settings of its own. One that did resets nothing: `RESET` finds the
/// server's values there, for the gate gives a server the client's only when it has it.
#[derive(Clone, Copy, PartialEq)]
enum Began {
    Plainly,
    WithSettings,
}

struct Author<'a> {
    chance: &'a mut Chance,
    mode: Mode,
    seed: u64,
    client: usize,
    said: u32,
    began: Began,
}

impl Author<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.chance.below(n)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn nonce(&mut self) -> String {
        self.said += 1;
        format!("{}{}~", nonce_of(self.seed, self.client), self.said)
    }

    /// A question for a row that is nobody else's.
    fn row(&mut self) -> String {
        format!("select '{}'", self.nonce())
    }

    fn session(&mut self) -> Session {
        let mut parameters = Vec::new();
        if self.below(2) == 0 {
            parameters.push(("application_name", self.nonce()));
        }
        if self.below(3) == 0 {
            parameters.push(("options", "-c statement_timeout=61234 -c work_mem=2MB".to_owned()));
        }
        if self.below(3) == 0 {
            parameters.push(("TimeZone", "Asia/Tokyo".to_owned()));
        }
        self.began = if parameters.is_empty() { Began::Plainly } else { Began::WithSettings };
        let rounds = (0..1 + self.below(8)).map(|_| self.round()).collect();
        let end = match self.below(3) {
            0 => End::Terminates,
            1 => End::Closes,
            _ => End::Cut(self.cut()),
        };
        Session { parameters, rounds, end }
    }

    /// Things that are done wholly or not at all, up to a byte of chance.
    fn cut(&mut self) -> Vec<u8> {
        let insert = format!("insert into half values ('{}')", self.nonce());
        let mut all = match self.below(4) {
            0 => query(&format!("begin; {insert}; {insert}; commit")),
            1 => query(&format!("{insert}; {insert}")),
            2 => [runs("", &insert), runs("", &insert), sync()].concat(),
            _ => [query("begin"), query(&insert), runs("h", &insert), query("commit")].concat(),
        };
        all.extend(query(&format!("select '{}', pg_sleep(0.002)", self.nonce().repeat(200))));
        let end = self.below(all.len() + 1);
        all.truncate(end);
        all
    }

    fn round(&mut self) -> Round {
        match self.below(16) {
            0 => self.cancelled(),
            1 | 2 => self.awaited(),
            3..=8 => {
                let (mut messages, mut ready) = (Vec::new(), 0);
                for _ in 0..=self.below(3) {
                    ready += self.calm(&mut messages);
                }
                let parts = vec![Part { messages, until: None }];
                Round { parts, wait: Wait::Ready(ready) }
            }
            _ => {
                let mut messages = Vec::new();
                for _ in 0..=self.below(4) {
                    match self.below(3) {
                        0 => drop(self.calm(&mut messages)),
                        1 => self.wild(&mut messages),
                        _ => (0..=self.below(5)).for_each(|_| self.any(&mut messages)),
                    }
                }
                Round { parts: vec![Part { messages, until: None }], wait: Wait::Mark }
            }
        }
    }

    /// A query that is cancelled at some moment.
    fn cancelled(&mut self) -> Round {
        let first = Part { messages: vec![query("rollback")], until: Some(b"Z") };
        let long = format!("select '{}', pg_sleep(0.0{})", self.nonce(), self.below(4));
        let second = Part { messages: vec![query(&long)], until: None };
        let after = self.below(40) as u64;
        Round { parts: vec![first, second], wait: Wait::Cancelled { ready: 2, after } }
    }

    /// Of which a reply is awaited before the rest is said.
    fn awaited(&mut self) -> Round {
        let own = format!("copy w{} from stdin", self.client);
        let mut end = Vec::new();
        let (first, until, ready): (_, &[u8], _) = match self.below(4) {
            0 => {
                self.copying(&mut end, Syncs::Never);
                (vec![query(&own)], b"GE", 1)
            }
            1 => {
                self.copying(&mut end, Syncs::Never);
                end.push(sync());
                let flush = bare(Frontend::Flush);
                (vec![close("f"), runs("f", &own), flush], b"GE", 1)
            }
            2 => {
                // A Close that is answered, or the error before it.
                let portal = named(Frontend::Close, "P", "nobody", &[]);
                let name = self.pick(&NAMES);
                let flush = bare(Frontend::Flush);
                end = vec![bind("", name, &[]), execute(""), sync()];
                let row = self.row();
                (vec![parse("f2", &row, &[]), describe(name), portal, flush], b"3E", 1)
            }
            _ => {
                let texts = [
                    "select generate_series(1, 5)",
                    "select 1/(3 - g) from generate_series(1, 5) g",
                ];
                let text = self.pick(&texts);
                let some = named(Frontend::Execute, "", "p", &[0, 0, 0, 2]);
                let flush = bare(Frontend::Flush);
                end = vec![some.clone(), flush.clone(), some.clone(), sync()];
                (vec![parse("", text, &[]), bind("p", "", &[]), some, flush], b"sCE", 1)
            }
        };
        // A portal that was there already, or a transaction that failed.
        let before = [vec![query("rollback")], vec![close("f2"), sync()]];
        let before = before.map(|messages| Part { messages, until: Some(b"Z") });
        let mut parts = before.to_vec();
        parts.push(Part { messages: first, until: Some(until) });
        parts.push(Part { messages: end, until: None });
        let wait = match until {
            // Rows for a COPY that was refused are passed over, and so is a Sync between them.
            b"GE" => Wait::Mark,
            _ => Wait::Ready(2 + ready),
        };
        Round { parts, wait }
    }

    /// A few messages with a known number of ReadyForQuery, which is returned.
    fn calm(&mut self, to: &mut Vec<Vec<u8>>) -> usize {
        let (name, row) = (self.pick(&NAMES), self.row());
        match self.below(14) {
            0 => to.push(query(&row)),
            1 => {
                let text = self.several();
                to.push(query(&text));
            }
            2 => to.push([runs("", &row), sync()].concat()),
            3 => to.push(again(name)),
            4 => {
                let value = self.nonce();
                let value = value.repeat(1 + self.below(3) * 1000);
                to.push(close("v"));
                to.push(parse("v", "select $1::text, length($1)", &[]));
                to.push(
                    [bind("p", "v", &[&value]), named(Frontend::Describe, "P", "p", &[])].concat(),
                );
                to.extend([execute("p"), sync()]);
            }
            5 => to.extend([close(name), parse(name, &row, &[]), describe(name), sync()]),
            6 => to.push(query(&self.transaction())),
            7 => return self.cursor(to),
            8 => {
                // What an error leaves out.
                let wrong = self.wrong();
                to.extend([wrong, runs("", &row), close(name), sync()]);
            }
            9 => to.push(query(&self.setting())),
            10 => to.push(query(&self.dropping())),
            11 => to.push(self.call()),
            12 => {
                let copy = self.copy_out();
                to.push(query(&copy));
            }
            _ => to.push(query(&self.told())),
        }
        1
    }

    /// Messages of which it is not said here how often they are ready.
    fn wild(&mut self, to: &mut Vec<Vec<u8>>) {
        let own = format!("copy w{} from stdin", self.client);
        match self.below(8) {
            0 => {
                to.push(query(&own));
                self.copying(to, self.syncs());
            }
            1 | 2 => {
                // Under a name of its own, so that nothing else begins it.
                let table = self.pick(&[own.as_str(), "copy v from stdin"]).to_owned();
                to.push([close("copy"), runs("copy", &table)].concat());
                let syncs = self.syncs();
                if syncs == Syncs::Perhaps && self.below(2) == 0 {
                    to.push(sync());
                }
                self.copying(to, syncs);
                to.push(sync());
            }
            3 => {
                to.push(query(&format!("{own}; {}; {own}", self.row())));
                self.copying(to, self.syncs());
                self.copying(to, self.syncs());
            }
            4 => {
                // A simple query in the middle of a segment.
                let (one, two) = (self.row(), self.row());
                to.extend([runs("", &one), query(&two), again("")]);
            }
            5 => {
                let copy = self.copy_out();
                // Not the unnamed statement, which others execute without rows and an end behind.
                to.extend([close("cv"), runs("", &copy), runs("cv", "copy v from stdin")]);
                to.extend([bare(Frontend::CopyFail), sync()]);
            }
            6 => {
                let (row, flush) = (self.row(), bare(Frontend::Flush));
                to.extend([parse("", &row, &[]), flush.clone(), bind("", "", &[]), flush.clone()]);
                to.extend([execute(""), flush, query(&row), sync()]);
            }
            _ => {
                let value = self.nonce();
                let some = named(Frontend::Execute, "", "c", &[0, 0, 0, 1]);
                let text = "select $1::text || g from generate_series(1, 3) g";
                to.extend([parse("", text, &[]), bind("c", "", &[&value]), some.clone(), some]);
                to.extend([named(Frontend::Close, "P", "c", &[]), execute("c")]);
            }
        }
    }

    /// One message, whatever it meets.
    fn any(&mut self, to: &mut Vec<Vec<u8>>) {
        let (name, portal, row) = (self.pick(&NAMES), self.pick(&PORTALS), self.row());
        let text =
            self.pick(&[row.as_str(), row.as_str(), "begin", "commit", "rollback", "", "selec"]);
        to.push(match self.below(14) {
            0 | 1 => parse(name, text, &[]),
            2 | 3 => bind(portal, name, &[]),
            4 => describe(name),
            5 => named(Frontend::Describe, "P", portal, &[]),
            6 => execute(portal),
            7 => named(Frontend::Execute, "", portal, &[0, 0, 0, 1]),
            8 => close(name),
            9 => named(Frontend::Close, "P", portal, &[]),
            10 => bare(Frontend::Flush),
            11 => query(text),
            12 => self.call(),
            _ => sync(),
        });
    }

    /// A session's messages pass as they are. Where a COPY fails that could have read a Sync, and more
    /// was asked behind it, nobody can tell whose the replies are, and the gate ends the session.
    fn syncs(&self) -> Syncs {
        match self.mode {
            Mode::Session => Syncs::Never,
            Mode::Transaction | Mode::Statement => Syncs::Perhaps,
        }
    }

    fn several(&mut self) -> String {
        let (one, two, client) = (self.row(), self.row(), self.client);
        let texts = [
            format!("{one}; {two}"),
            format!("{one}; select 1/0; {two}"),
            format!("insert into w{client} values ('{}'); select 1/0", self.nonce()),
            format!(
                "insert into w{client} values ('{}'); select n from w{client} order by n",
                self.nonce()
            ),
            format!("{one}; selec; {two}"),
            format!("begin; {one}; commit; {two}"),
            format!("insert into d values ({client}), ({client})"),
            format!("select n from w{client} order by n limit 20"),
            format!("with x as (delete from w{client} returning n) select n from x order by n"),
            String::new(),
            ";".to_owned(),
            format!("/* {} */", self.nonce()),
        ];
        texts[self.below(texts.len())].clone()
    }

    fn transaction(&mut self) -> String {
        let (row, client) = (self.row(), self.client);
        let texts = [
            "begin".to_owned(),
            "begin isolation level serializable read only".to_owned(),
            "commit".to_owned(),
            "rollback".to_owned(),
            "commit and chain".to_owned(),
            format!("begin; insert into w{client} values ('{}')", self.nonce()),
            format!("savepoint s; {row}"),
            "rollback to savepoint s".to_owned(),
            format!("begin; {row}; select 1/0"),
        ];
        texts[self.below(texts.len())].clone()
    }

    fn cursor(&mut self, to: &mut Vec<Vec<u8>>) -> usize {
        let text = "select '$' || g from generate_series(1, 9) g".replace('$', &self.nonce());
        if self.below(2) == 0 {
            to.push(query("begin"));
            to.push(query(&format!("declare cur cursor for {text}; fetch 2 from cur")));
            to.push(query("fetch 3 from cur; move 1 in cur; fetch all from cur; close cur"));
            to.push(query("commit"));
            return 4;
        }
        let some = named(Frontend::Execute, "", "far", &[0, 0, 0, 2]);
        to.push(query("begin"));
        to.extend([parse("", &text, &[]), bind("far", "", &[]), some.clone(), sync()]);
        to.extend([some.clone(), sync(), named(Frontend::Describe, "P", "far", &[]), sync()]);
        to.extend([query(self.pick(&["commit", "rollback", "select 1/0"])), some, sync()]);
        to.push(query("rollback"));
        7
    }

    /// Something that fails, in each message of a segment that can.
    fn wrong(&mut self) -> Vec<u8> {
        match self.below(9) {
            0 => parse("", "selec", &[]),
            1 => parse("", "select nothing_such", &[]),
            2 => bind("", "no such", &[]),
            3 => [parse("", "select $1::int", &[]), bind("", "", &["x"])].concat(),
            4 => [parse("", "select $1::int", &[]), bind("", "", &[])].concat(),
            5 => describe("no such"),
            6 => execute("no such"),
            7 => runs("", "select 1/0"),
            _ => named(Frontend::Describe, "P", "no such", &[]),
        }
    }

    fn setting(&mut self) -> String {
        let nonce = self.nonce();
        let mut all = vec![
            format!("set application_name = '{nonce}'"),
            "select current_setting('application_name'), current_setting('TimeZone')".to_owned(),
            "show statement_timeout".to_owned(),
            "set timezone = 'America/New_York'".to_owned(),
            "set datestyle = 'German'; select date '2026-11-22'".to_owned(),
            format!("begin; set local application_name = '{nonce}'; commit"),
            format!("begin; set application_name = '{nonce}'; rollback"),
            "begin; set local work_mem = '1MB'; show work_mem; commit; show work_mem".to_owned(),
            "set client_encoding = 'LATIN1'; select 'ä'".to_owned(),
            "set client_encoding = 'UTF8'; select 'ä'".to_owned(),
        ];
        let resets = [
            "reset timezone; show timezone".to_owned(),
            "set application_name = default".to_owned(),
            "reset all; reset role".to_owned(),
            "discard all".to_owned(),
        ];
        let of_sessions = [
            "set work_mem = '3MB'; show work_mem".to_owned(),
            "show work_mem".to_owned(),
            format!("listen ch{}", self.client),
            format!("notify ch{}, '{nonce}'", self.client),
            format!(
                "create temp table if not exists mine (n text); insert into mine values ('{nonce}')"
            ),
            "select n || '' from mine".to_owned(),
            format!("declare held cursor with hold for select '{nonce}'"),
            "fetch held; fetch held; close held".to_owned(),
            format!("select pg_advisory_lock(77, {})", self.client),
            format!("select pg_advisory_unlock(77, {})", self.client),
            "set role pg_read_all_data; select current_user".to_owned(),
            "select current_user".to_owned(),
        ];
        if self.mode == Mode::Session {
            all.extend(of_sessions);
        }
        if self.began == Began::Plainly {
            all.extend(resets);
        }
        all[self.below(all.len())].clone()
    }

    /// What drops statements, or makes them by SQL.
    fn dropping(&mut self) -> String {
        let row = self.row();
        let discards = match self.began {
            Began::Plainly => "discard all",
            Began::WithSettings => "begin; discard all",
        };
        let texts = [
            discards.to_owned(),
            "deallocate a".to_owned(),
            format!("{row}; deallocate b"),
            "deallocate prepare \"c\"".to_owned(),
            "deallocate all".to_owned(),
            format!("prepare sq as {row}"),
            "execute sq".to_owned(),
            format!("prepare sq2(text) as select $1 || '{}'", self.nonce()),
            format!("execute sq2('{}')", self.nonce()),
            "deallocate sq".to_owned(),
        ];
        texts[self.below(texts.len())].clone()
    }

    /// int4pl(2, 3) by its number, a function that does not exist, or values that are none.
    fn call(&mut self) -> Vec<u8> {
        let function: u32 = self.pick(&[177, 177, 4_000_000_000]);
        let wide = self.pick(&[4_u8, 4, 3]);
        let mut out = Vec::new();
        write::message(&mut out, Frontend::FunctionCall, |out| {
            out.extend_from_slice(&function.to_be_bytes());
            out.extend_from_slice(&[0, 1, 0, 1, 0, 2, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, wide]);
            out.extend_from_slice(&[0, 0, 0, 3][..usize::from(wide)]);
            out.extend_from_slice(&[0, 1]);
        });
        out
    }

    fn copy_out(&mut self) -> String {
        let (nonce, many) = (self.nonce(), self.pick(&[3, 40, 3000]));
        let value = self.pick(&["g", "1/(30 - g)"]);
        let rows = format!("select '{nonce}', {value} from generate_series(1, {many}) g");
        format!("copy ({rows}) to stdout")
    }

    fn told(&mut self) -> String {
        let nonce = self.nonce();
        let texts = [
            format!("do $$ begin raise notice '{nonce}'; end $$"),
            format!("do $$ begin raise exception '{nonce}' using errcode = 'P0042'; end $$"),
            format!("select repeat('{nonce}', 5000)"),
            format!("select '{nonce}', pg_sleep(0.003)"),
            "select \"no such column\"".to_owned(),
            format!("select '{nonce}' as \"{}\", null, 1.5, array[1, 2]", self.nonce()),
        ];
        texts[self.below(texts.len())].clone()
    }

    /// Rows in the middle of things, mostly good ones, with what may stand between; then an end.
    fn copying(&mut self, to: &mut Vec<Vec<u8>>, syncs: Syncs) {
        for _ in 0..self.below(4) {
            let nonce = self.nonce();
            to.push(match self.below(9) {
                0 => bare(Frontend::Flush),
                1 if syncs == Syncs::Perhaps => sync(),
                2 => rows("two\tcolumns\n"),
                3 => rows("x"),
                4 => rows(&format!("{nonce}\n").repeat(300)),
                5 => rows(""),
                _ => rows(&format!("{nonce}\n")),
            });
        }
        to.push(match self.below(4) {
            0 => named(Frontend::CopyFail, "", "no more", &[]),
            _ => bare(Frontend::CopyDone),
        });
    }
}

/// Whether Sync may stand between rows.
#[derive(Clone, Copy, PartialEq)]
enum Syncs {
    Never,
    Perhaps,
}
