//! Examples as somebody types them: with the servers and databases that they name, and in the short suite for
//! seconds.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use measure::PartRecord;
use postgres::{Private, Settings};

use super::slow::{Long, Short, Slow, is_long, slow, warehouses, warehouses_of_parts};
use super::{Part, names_its_server, prepare, said};
use crate::agents_asked;
use crate::agents_database;
use crate::browser::Scratch;
use crate::clockwork::Clockwork;
use crate::command::{PATIENCE, sekisho, shell, shell_on};
use crate::jungle;
use crate::parts::meeting_place;
use crate::placing::directories;
use crate::records;
use crate::serving_agents;
use crate::site::{alone, server};
use crate::tpcc::{ask, database};
use crate::tpcc_records;
use crate::walks::limited_nginx_by_tls;

/// Servers and databases for the examples of a part, each made when the first example needs it.
pub(super) struct Places {
    folder: PathBuf,
    jungle: Option<jungle::Served>,
    agents: Option<agents_asked::Served>,
    agents_database: OnceCell<String>,
    /// A server that keeps what it acknowledges.
    server: OnceCell<Private>,
    /// The database that the example of `tpcc load --replace` has loaded.
    loaded: OnceCell<String>,
    /// The same of the other example, which parts of a run share.
    shared: OnceCell<String>,
    /// Directories that stand for disks, of the user who has the server.
    disks: Scratch,
}

impl Places {
    pub(super) fn new(folder: &Path, of: Part) -> Places {
        Places {
            folder: folder.to_owned(),
            jungle: (of == Part::Trees).then(|| jungle::with_a_board(folder)),
            agents: (of == Part::Agents).then(|| agents_asked::with_alice(folder)),
            agents_database: OnceCell::new(),
            server: OnceCell::new(),
            loaded: OnceCell::new(),
            shared: OnceCell::new(),
            disks: Scratch::new(),
        }
    }

    /// Types a line, which ends with one of these codes.
    pub(super) fn typed(&self, line: &str, codes: &[i32]) {
        let folder = &*self.folder;
        match (slow(line), line.split(' ').nth(1)) {
            (Some(of), _) if of.runs() => {
                let database =
                    if line.contains(" --part ") { self.shared() } else { self.loaded() };
                takes_long(folder, (line, codes), of, (database, self.release()));
            }
            (Some(of), _) => accepted(folder, line, of),
            (_, Some("agents")) => {
                of_agents(folder, line, codes, self.agents(), self.agents_database());
            }
            (_, Some("gate")) if line.contains(" postgres ") => monitors(folder, line),
            (_, Some("gate")) => gates(folder, line),
            (_, Some("jungle")) => of_jungle(folder, line, codes, self.jungle()),
            (_, Some("board")) => serves(&format!("{line} --at 127.0.0.1:0")),
            (_, Some("measure")) => of_load(folder, line, codes),
            (_, Some("tpcc")) => self.of_tpcc(line, codes),
            _ => works(folder, line, codes),
        }
    }

    fn of_tpcc(&self, line: &str, codes: &[i32]) {
        let folder = &*self.folder;
        match line.split(' ').nth(2) {
            Some("report") => reports(line, codes),
            Some("merge") => merges(line, codes),
            Some("place") => {
                let (_, disks) = directories(&self.disks, self.server().user());
                places(folder, (line, codes), &disks, (self.loaded(), self.release()));
            }
            Some("verify") => verifies(folder, line, codes, self.loaded()),
            Some("load") if line.contains("--replace") => {
                let url = loads(folder, line, codes, (self.server(), warehouses()));
                self.loaded.set(url).expect("one example replaces");
            }
            Some("load") => {
                let url = loads(folder, line, codes, (self.server(), warehouses_of_parts()));
                self.shared.set(url).expect("one example does not");
            }
            _ => works(folder, line, codes),
        }
    }

    fn server(&self) -> &Private {
        self.server.get_or_init(|| Private::start(&Settings::default()).expect("a server starts"))
    }

    fn release(&self) -> &str {
        self.server().programs().version()
    }

    fn loaded(&self) -> &str {
        self.loaded.get_or_init(|| {
            let line = "sekisho tpcc load --warehouses 10 --db \"$DATABASE_URL\"";
            loads(&self.folder, line, &[0], (self.server(), warehouses()))
        })
    }

    fn shared(&self) -> &str {
        self.shared.get().expect("the examples of `tpcc load` come first")
    }

    fn jungle(&self) -> &str {
        &self.jungle.as_ref().expect("it is of trees").address
    }

    /// A database that has the tables of agents.
    fn agents_database(&self) -> &str {
        self.agents_database.get_or_init(|| agents_database::made("examples_of_agents"))
    }

    fn agents(&self) -> &str {
        &self.agents.as_ref().expect("it is of agents").address
    }

    /// Stops the servers, which run to the end.
    pub(super) fn end(self) {
        if let Some(jungle) = self.jungle {
            jungle.stop();
        }
        if let Some(agents) = self.agents {
            agents.stop();
        }
        if let Some(server) = self.server.into_inner() {
            server.stop().expect("it runs");
        }
    }
}

/// Load on a server that keeps time, on nginx, or on a database.
fn of_load(folder: &Path, line: &str, codes: &[i32]) {
    match () {
        () if line.contains(" postgres ") => own_sql(folder, line, codes),
        () if line.contains(" merge ") => merges_runs(line, codes),
        () if line.contains(" --part ") => takes_part(folder, line, codes),
        () if line.contains("https://") => by_http2(folder, line, codes),
        () => measures(folder, line, codes),
    }
}

/// An example of `jungle`, with a server that has a board.
fn of_jungle(folder: &Path, line: &str, codes: &[i32], address: &str) {
    match line.split(' ').nth(2) {
        Some("serve") => serves(&format!("{line} --listen 127.0.0.1:0")),
        // The copy that the example of `backup` has made has no server, and a user is made without one.
        Some("verify" | "user") => works(folder, line, codes),
        _ => works(folder, &format!("{line} --server http://{address}"), codes),
    }
}

/// An example of `agents`, with a server that has alice, or with a database.
fn of_agents(folder: &Path, line: &str, codes: &[i32], address: &str, database: &str) {
    match line.split(' ').nth(2) {
        Some("serve") => {
            let line = line.replace("\"$DATABASE_URL\"", &format!("'{database}'"));
            serving_agents::serves(folder, &line);
        }
        Some("init") => works_on(folder, database, line, codes),
        Some("explain" | "restore" | "user") => works(folder, line, codes),
        _ => {
            // Others that come later are about alice: it is another one that ends.
            let line = line.replace("delete alice", "delete nobody");
            works(folder, &format!("{line} --url http://{address}"), codes);
        }
    }
}

/// It listens, and stops when it is told to.
#[track_caller]
fn serves(line: &str) {
    // In a folder of its own: the server of the other examples has the directory that all of them name.
    let scratch = Scratch::new();
    let running = shell(&scratch.join(""), line);
    running.says("listening on http://127.0.0.1:");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!((ended.code, &*ended.err), (0, ""), "{line}: {ended:?}");
}

/// In the short suite on the database that the example of `tpcc load` has loaded, named or not; in the
/// long one as it is typed. One in twenty runs by the rules is said to deviate, and on a machine that
/// others use terminals may be late: then it is done again, with other chance.
#[track_caller]
fn takes_long(
    folder: &Path,
    (line, codes): (&str, &[i32]),
    slow: &Slow,
    (database, release): (&str, &str),
) {
    // Properties of transactions depend on no time, and nothing is pressed to see them.
    let _live = (!line.contains("tpcc acid")).then(alone);
    let patience = if is_long() { Duration::from_secs(3600) } else { PATIENCE };
    let is_named = line.contains("\"$DATABASE_URL\"");
    // Whose server is killed has none of others.
    let is_own = line.contains("tpcc crash");
    let url = (is_named || !is_long() && !is_own).then_some(database);
    let mut typed = line.to_owned();
    if !slow.is_short() {
        typed = typed.replace("--warehouses 900", warehouses_of_parts());
        typed = typed.replace("--max-warehouses 60", "--max-warehouses 2");
    }
    if let (Short::For(words), true) = (&slow.short, slow.is_short()) {
        for (word, instead) in *words {
            assert!(typed.contains(word), "{line}: {word}");
            typed = match *word {
                "" => format!("{typed} {instead}"),
                word => typed.replace(word, instead),
            };
        }
    }
    let mut tries = Vec::new();
    for seed in 4..7 {
        let seeded =
            if typed.contains("--seed") { typed.clone() } else { format!("{typed} --seed {seed}") };
        let other = (slow.long == Long::Beside)
            .then(|| shell_on(folder, url, &seeded.replace("--part 1/2", "--part 2/2")));
        let ended = shell_on(folder, url, &seeded).ended(patience);
        if let Some(other) = other {
            other.ended(patience);
        }
        if codes.contains(&ended.code) {
            // A demo says first what it will do.
            let is_demo = line.starts_with("sekisho demo");
            assert!(is_demo || ended.code == said(&ended.out), "{typed}: {ended:?}");
            names_its_server(line, &ended, release);
            return;
        }
        tries.push(ended);
    }
    panic!("{typed} never ended with {codes:?}: {tries:?}");
}

/// It ends as the help promises, and as its own first words say.
#[track_caller]
fn works_on(folder: &Path, database: &str, line: &str, codes: &[i32]) {
    let ended = shell_on(folder, Some(database), line).ended(PATIENCE);
    assert!(codes.contains(&ended.code), "{line}: {ended:?}");
    assert_ne!(ended.out, "", "{line}: {ended:?}");
}

#[track_caller]
fn works(folder: &Path, line: &str, codes: &[i32]) {
    let ended = shell(folder, line).ended(PATIENCE);
    assert!(codes.contains(&ended.code), "{line}: {ended:?}");
    assert_eq!(ended.code, said(&ended.out), "{line}: {ended:?}");
}

/// All its words are understood, so that a wrong one that is added is the only thing to complain about.
#[track_caller]
fn accepted(folder: &Path, line: &str, slow: &Slow) {
    let ended = shell(folder, &format!("{line} --seed nonsense")).ended(PATIENCE);
    let elsewhere = match slow.short {
        Short::In(tests) => tests,
        Short::For(_) => &["the short suite"],
    };
    assert_eq!(ended.code, 2, "{line}, which is run in {elsewhere:?}: {ended:?}");
    assert!(ended.err.starts_with("error: invalid value 'nonsense' for '--seed"), "{ended:?}");
}

/// Put to a server that keeps time. It has room for all, but where a knee is looked for, which is at five
/// hundred requests a second. In the short suite for a second or two: that tells a mean, and of a quantile
/// the ninth decile where requests come by the clock. A generator that is late by a tenth of a response
/// makes a run invalid, so that the response is longer there. On a machine that others use a run may be late by itself,
/// and says so: then it is made again.
#[track_caller]
fn measures(folder: &Path, line: &str, codes: &[i32]) {
    let _live = alone();
    let (places, service) = match () {
        () if line.contains("--knee") => (5, Duration::from_millis(10)),
        () if ["--rate", "--log", "--steps"].iter().any(|word| line.contains(word))
            && !is_long() =>
        {
            (1000, Duration::from_millis(300))
        }
        () => (1000, Duration::from_millis(30)),
    };
    let server = Clockwork::start(places, service);
    let mut typed = line.replace("127.0.0.1:8080", &server.address().to_string());
    assert_ne!(typed, line);
    if !is_long() {
        let short = [
            (" --duration 5s", " --duration 1s"),
            (
                " --rate 1000/s --expect 'p99<50ms'",
                " --rate 200/s --duration 2s --expect 'mean<500ms'",
            ),
            (
                " --knee 'p99<50ms'",
                " --knee 'p90<50ms' --arrivals fixed --duration 500ms --budget 20s",
            ),
            (" --post /a '{}' --clients 4", " --post /a '{}' --clients 4 --duration 1s"),
            (" --log access.log --speed 10", " --log access.log --rate 100/s --duration 2s"),
            (" --steps 10s:100/s,10s:300/s", " --steps 1s:100/s,1s:200/s"),
        ];
        let (word, instead) =
            short.iter().find(|(word, _)| line.contains(word)).expect("it is one of them");
        typed = format!("{} --warmup 100ms", typed.replace(word, instead));
    }
    until_promised(folder, &typed, codes);
}

/// Until it ends as the help promises. What it says is what it ends with, each time.
#[track_caller]
fn until_promised(folder: &Path, typed: &str, codes: &[i32]) {
    let mut tries = Vec::new();
    for _ in 0..8 {
        let ended = shell(folder, typed).ended(PATIENCE);
        let said_of = ended.out.strip_prefix("measuring ").and_then(|out| out.split_once('\n'));
        let out = said_of.map_or(&*ended.out, |(_, out)| out);
        assert_eq!(ended.code, said(out), "{typed}: {ended:?}");
        if codes.contains(&ended.code) {
            return;
        }
        // Nothing but the machine's business is a reason to do it again.
        assert_eq!(ended.code, 5, "{typed}: {ended:?}");
        tries.push(ended);
    }
    panic!("{typed} never ended with {codes:?}: {tries:?}");
}

/// Beside the other parts of the run, all on this machine, at a rate for it.
#[track_caller]
fn takes_part(folder: &Path, line: &str, codes: &[i32]) {
    let _live = alone();
    let server = Clockwork::start(1000, Duration::from_millis(30));
    let mut typed = format!("{line} --duration 1s --warmup 100ms");
    let instead = [
        ("http://h/", format!("http://{}/", server.address())),
        ("90000/s", "150/s".to_owned()),
        ("10.0.0.5:7400", meeting_place()),
    ];
    for (word, instead) in instead {
        assert!(typed.contains(word), "{line}: {word}");
        typed = typed.replace(word, &instead);
    }
    assert!(typed.contains("--part 1/3"), "{line}");
    let part = |number: u32| typed.replace("--part 1/3", &format!("--part {number}/3"));
    let parts: Vec<_> = (1..=3).map(|number| shell(folder, &part(number))).collect();
    for part in parts {
        let ended = part.ended(PATIENCE);
        assert!(codes.contains(&ended.code), "{line}: {ended:?}");
        assert_eq!(ended.code, said(&ended.out), "{line}: {ended:?}");
    }
}

/// Put to an nginx whose certificate nobody has signed.
#[track_caller]
fn by_http2(folder: &Path, line: &str, codes: &[i32]) {
    let _live = alone();
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("www")).expect("a folder of our own");
    let server = limited_nginx_by_tls(&scratch.join("www"));
    let mut typed = line.replace("127.0.0.1:8443", &server.address.to_string());
    assert!(typed != line && typed.contains("--http2"), "{line}");
    if !is_long() {
        typed = format!("{typed} --duration 1s --warmup 100ms");
    }
    until_promised(folder, &typed, codes);
}

/// On directories that stand for disks, of the user who has the server.
#[track_caller]
fn places(
    folder: &Path,
    (line, codes): (&str, &[i32]),
    disks: &str,
    (loaded, release): (&str, &str),
) {
    let typed = line.replace("/disk1,/disk2,/disk3", disks);
    assert_ne!(typed != line, line.contains("--undo"), "{line}");
    // Without a word a server of its own is made in the long suite; in the short one the plan is told.
    let is_named = line.contains("\"$DATABASE_URL\"");
    let url = (is_named || !is_long()).then_some(loaded);
    let is_short = !is_long() && !line.contains("--undo");
    let short = if is_short { " --ramp 0s --measure 1s --connections 2" } else { "" };
    let ended = shell_on(folder, url, &format!("{typed}{short}")).ended(PATIENCE);
    assert!(codes.contains(&ended.code), "{line}: {ended:?}");
    assert_eq!(ended.code, said(&ended.out), "{line}: {ended:?}");
    // Nothing is measured when all is put back.
    if !line.contains("--undo") {
        names_its_server(line, &ended, release);
    }
}

/// The database that the example of `tpcc load` has loaded.
#[track_caller]
fn verifies(folder: &Path, line: &str, codes: &[i32], loaded: &str) {
    let line = line.replace("\"$DATABASE_URL\"", &format!("'{loaded}'"));
    assert!(line.contains(loaded), "{line}");
    works(folder, &line, codes);
}

/// Of runs that belong on one page, in a folder where no other example has left its runs.
#[track_caller]
fn reports(line: &str, codes: &[i32]) {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    prepare(&folder);
    works(&folder, line, codes);
}

/// Records of two parts that meet the rules together, in a folder where no other run is.
#[track_caller]
fn merges(line: &str, codes: &[i32]) {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    for (nth, part) in (1..).zip(tpcc_records::parts(10)) {
        let path = folder.join(format!("part-{nth}.tpcc.json"));
        tpcc_records::write(&path, &format!("part-{nth}"), &part);
    }
    works(&folder, line, codes);
}

/// Records of two parts of a run, in a folder where no other run is.
#[track_caller]
fn merges_runs(line: &str, codes: &[i32]) {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    for number in 1..=2 {
        let mut part = records::record(4);
        part.header.part = Some(PartRecord {
            part: format!("{number}/2").parse().expect("it is one"),
            start_us: 1_800_000_000_000_000,
            clock_error_s: 1e-4,
            late_s: 1e-5,
        });
        records::write(&folder.join(format!("part-{number}.jsonl")), &part);
    }
    works(&folder, line, codes);
}

/// Into a new database of a server that keeps what it acknowledges; gives its address.
#[track_caller]
fn loads(
    folder: &Path,
    line: &str,
    codes: &[i32],
    (server, warehouses): (&Private, &str),
) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("example_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let url = server.url();
    ask(url.as_str(), &format!("create database {name}")).expect("it is a new name");
    let (start, _) = url.as_str().rsplit_once('/').expect("it ends in a database");
    let url = format!("{start}/{name}");
    let line = line.replace("\"$DATABASE_URL\"", &format!("'{url}'"));
    let line = line.replace("--warehouses 10", warehouses);
    assert!(line.contains(&url) && line.contains(warehouses), "{line}");
    works(folder, &line, codes);
    url
}

/// Load of own SQL on a database of a private server that holds what the scripts name, or on a private one
/// that they fill. A transaction takes a tenth of a second, but where a knee is looked for, so that what other
/// work does to the generator counts for little.
#[track_caller]
fn own_sql(folder: &Path, line: &str, codes: &[i32]) {
    let _live = alone();
    let tables = "create table if not exists item (id int primary key, price int); \
                  insert into item select i, i from generate_series(1, 100) i";
    let is_knee = line.contains("--knee");
    let rest = if is_knee { "0.005" } else { "0.1" };
    let script = format!(
        "\\set item random(1, 100)\nselect price, pg_sleep({rest}) from item where id = :item;\n"
    );
    let tables_file = tables.replace("; ", ";\n");
    let files = [("shop.sql", &script), ("pay.sql", &script), ("browse.sql", &script)];
    for (name, text) in files.into_iter().chain([("schema.sql", &tables_file)]) {
        fs::write(folder.join(name), text).expect("a folder of our own");
    }
    let url = database(&format!("own_sql_{}", line.len()));
    ask(&url, tables).expect("they are statements");
    let mut typed = line.replace("\"$DATABASE_URL\"", &format!("'{url}'"));
    if !line.contains("DATABASE_URL") && !line.contains("--init") {
        typed += &format!(" --db '{url}'");
    }
    typed = typed.replace("--rate 200/s", "--rate 50/s");
    // Short, but for the search, which is short by its limit.
    typed += if is_knee { " --duration 1s --budget 10s" } else { " --duration 1s" };
    until_promised(folder, &typed, codes);
}

/// Listens on a free port, before a database of a private server, until it is told to stop.
#[track_caller]
fn monitors(folder: &Path, line: &str) {
    let url = database("monitor_example");
    let line = line.replace("127.0.0.1:6432", "127.0.0.1:0");
    let line = line.replace("\"$DATABASE_URL\"", &format!("'{url}'"));
    assert!(line.contains(&url), "{line}");
    let running = shell(folder, &line);
    running.says("listening on 127.0.0.1:");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{line}: {ended:?}");
    assert!(ended.out.contains("drained: "), "{line}: {ended:?}");
}

/// Listens on a free port, before a real server, until it is told to stop.
#[track_caller]
fn gates(folder: &Path, line: &str) {
    let origin = server();
    let line = line.replace("127.0.0.1:8080", "127.0.0.1:0");
    let line = line.replace("127.0.0.1:9000", &origin.address().to_string());
    let running = shell(folder, &line);
    let said = running.says("listening on 127.0.0.1:");
    let (_, rest) = said.split_once("listening on ").expect("it says so");
    let address = rest.split(' ').next().expect("it says where");
    let url = format!("http://{address}/1k");
    let words = ["measure", "http", &url, "--clients", "2", "--requests", "20", "--warmup", "0s"];
    let measured = sekisho(folder, &[&words[..], &["--out", "gated.jsonl"]].concat());
    assert!(!measured.out.contains("failed: "), "{measured:?}");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{line}: {ended:?}");
    assert!(ended.out.contains("drained: "), "{line}: {ended:?}");
    origin.stop();
}
