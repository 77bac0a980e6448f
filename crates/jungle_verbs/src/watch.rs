//! `sekisho jungle watch`: every commit once, in the order of the log, also across a server that comes and goes.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use cli::json::{answer, notice};
use cli::request::query;
use cli::{Failure, Session, Verdict, complain, say};
use jungle_server::{CommitAnswer, Problem};

use crate::answer::{Event, Watched};
use crate::client::{Client, ServerArgs, Wish};
use crate::shown::{commit, line};

/// The time for which a server that has gone is asked again.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// The most bytes of a line of an event \[B\].
const LINE_MAX: u64 = 16 << 20;

/// Tell every commit as it happens, in the order of the log
///
/// Goes on where it was if the server comes back. Ends with Ctrl-C, or after --count commits.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle watch --after 1 --count 2")]
pub(crate) struct Args {
    /// Only commits that change this tree
    #[arg(long, value_name = "TREE")]
    tree: Option<String>,
    /// Begin behind this commit or token; left out, now
    #[arg(long, value_name = "TOKEN")]
    after: Option<String>,
    /// End after so many commits
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    server: ServerArgs,
}

/// An event as it came.
#[derive(Debug, Default)]
struct Told {
    event: String,
    id: String,
    data: String,
}

/// The events of a stream up to its end, read by a thread of its own, so that Ctrl-C is heard while none comes.
fn events(reader: impl Read + Send + 'static) -> Receiver<Told> {
    let (sender, events) = sync_channel(64);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut told = Told::default();
        loop {
            let mut text = String::new();
            let read = reader.by_ref().take(LINE_MAX).read_line(&mut text);
            if !matches!(read, Ok(1..)) || !text.ends_with('\n') {
                return;
            }
            let text = text.trim_end();
            if text.is_empty() {
                let whole = std::mem::take(&mut told);
                if !whole.event.is_empty() && sender.send(whole).is_err() {
                    return;
                }
                continue;
            }
            match text.split_once(": ") {
                Some(("event", event)) => event.clone_into(&mut told.event),
                Some(("id", id)) => id.clone_into(&mut told.id),
                Some(("data", data)) => data.clone_into(&mut told.data),
                _ => {}
            }
        }
    });
    events
}

struct Watch<'a> {
    args: &'a Args,
    token: Option<String>,
    commits: u64,
    is_lost: bool,
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let client = Client::new(&args.server)?;
    let mut watch = Watch { args, token: args.after.clone(), commits: 0, is_lost: false };
    let mut since = Instant::now();
    let mut is_first = true;
    while !session.interrupted() && !watch.is_over() {
        match watch.connect(&client) {
            Ok(events) => {
                is_first = false;
                watch.follow(&events, session, out)?;
                since = Instant::now();
            }
            Err(failure @ Failure::Machine(_)) if is_first || since.elapsed() > PATIENCE => {
                return Err(failure);
            }
            Err(Failure::Machine(_)) => {}
            Err(failure) => return Err(failure),
        }
        if !watch.is_over() && !session.interrupted() {
            std::thread::sleep(PAUSE);
        }
    }
    let verdict = match (watch.is_lost, session.interrupted() && !watch.is_over()) {
        (true, _) => Verdict::Fails,
        (false, true) => Verdict::Interrupted,
        (false, false) => Verdict::Holds,
    };
    if args.server.json {
        let body = Watched { commits: watch.commits, token: watch.token };
        say(out, &answer(verdict, verdict.word(), &body))?;
    }
    Ok(verdict)
}

impl Watch<'_> {
    fn is_over(&self) -> bool {
        self.is_lost || self.args.count.is_some_and(|count| self.commits >= count)
    }

    fn connect(&self, client: &Client) -> Result<Receiver<Told>, Failure> {
        let place = format!("/watch{}", query(&[("tree", self.args.tree.clone())]));
        let wish = Wish::get(place).with("last-event-id", self.token.as_ref());
        let mut response = client.send(&wish)?;
        if response.status().as_u16() == 200 {
            return Ok(events(response.into_body().into_reader()));
        }
        let text = response.body_mut().read_to_string().unwrap_or_default();
        let problem: Option<Problem> = serde_json::from_str(&text).ok();
        let why = problem.map_or_else(
            || format!("{}: no answer of Jungle", self.args.server.server),
            |problem| problem.detail.into(),
        );
        Err(if response.status().as_u16() == 503 {
            Failure::Machine(why)
        } else {
            Failure::Usage(why)
        })
    }

    /// Tells what comes, until the stream ends or enough was told.
    fn follow(
        &mut self,
        events: &Receiver<Told>,
        session: &Session,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        while !session.interrupted() && !self.is_over() {
            match events.recv_timeout(Duration::from_millis(100)) {
                Ok(told) => self.tell(&told, out)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
        Ok(())
    }

    fn tell(&mut self, told: &Told, out: &mut dyn Write) -> Result<(), Failure> {
        self.token = Some(told.id.clone());
        self.commits += u64::from(told.event == "commit");
        self.is_lost |= told.event == "reset";
        if self.args.server.json {
            let content = serde_json::from_str(&told.data)
                .map_err(|error| Failure::Usage(format!("an event that is no JSON: {error}")))?;
            let body = Event { event: told.event.clone(), token: told.id.clone(), content };
            say(out, &notice(&body))?;
        } else if told.event == "commit" {
            let of: CommitAnswer = serde_json::from_str(&told.data)
                .map_err(|error| Failure::Usage(format!("an event that is no commit: {error}")))?;
            say(out, &commit(&of.commit))?;
        } else if told.event == "reset" {
            complain(&format!(
                "fails: {} is not in the log of this server any more, which stands at {}: read the trees \
                 again, then watch with --after {}",
                self.args.after.as_deref().unwrap_or("the last position"),
                told.id,
                told.id
            ));
            say(out, &line(&format!("reset at {}", told.id)))?;
        }
        out.flush().map_err(Failure::machine)
    }
}
