//! Parts that have met and stay connected for a search in [`lockstep`](crate::lockstep): threads, sockets and the
//! clock around its decisions.
//!
//! Each connection has a thread. Each end says at least once a second that it is there, so that one that is silent
//! for long has gone, whatever the network knows of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use measure::{PartRecord, RunHeader, RunPart};

use crate::lockstep::{Act, Ending, Follower, FollowerWord, Heard, LeaderWord, Order};
use crate::meeting::{Clock, Line, MeetError, Meeting, Reading, Start, told};

/// Interval at which each end says that it is there.
const HERE: Duration = Duration::from_secs(1);
/// Silence after which the other end has gone.
const SILENCE: Duration = Duration::from_secs(10);
/// Lead with which the start of a probe is laid down when all parts are ready: they must have read the clock by then.
const LEAD: Duration = Duration::from_millis(500);
/// Interval of looks at a flag.
const LOOK: Duration = Duration::from_millis(20);
/// Words that wait to be heard; beyond them the other end waits.
const WORDS_MAX: usize = 1_024;

/// Facts that parts of a search must have in common: those of a plan, and the limit that is looked for.
fn facts(part: RunPart, header: &RunHeader, limit: &str) -> Vec<String> {
    let mut facts = told(part, header);
    facts.push(format!("limit of the knee: {limit}"));
    facts
}

/// Part 1, with its connections to the others.
#[derive(Debug)]
pub struct Leading {
    part: RunPart,
    clock: Clock,
    orders: Vec<Sender<LeaderWord>>,
    heard: Receiver<(u32, Heard)>,
    threads: Vec<JoinHandle<()>>,
    over: bool,
}

impl Leading {
    /// Waits for the other parts as part 1 of a search; `header` is of a plan of a probe, `limit` the limit in words.
    ///
    /// # Errors
    /// As [`Meeting::attend`].
    pub fn gather(
        meeting: &Meeting,
        header: &RunHeader,
        limit: &str,
        interrupt: &AtomicBool,
        waits: &mut dyn FnMut(&[u32]),
    ) -> Result<Leading, MeetError> {
        let plan = facts(meeting.part, header, limit);
        let (clock, lines) = meeting.gather(&plan, interrupt, waits)?;
        let (tell, heard) = mpsc::sync_channel(WORDS_MAX);
        let (mut orders, mut threads) = (Vec::new(), Vec::new());
        for (number, line) in lines {
            let (order, ordered) = mpsc::channel();
            let tell = tell.clone();
            orders.push(order);
            threads.push(thread::spawn(move || lead(line, number, clock, &ordered, &tell)));
        }
        Ok(Leading { part: meeting.part, clock, orders, heard, threads, over: false })
    }

    /// Number of parts, this one among them.
    pub fn of(&self) -> u32 {
        self.part.of()
    }

    /// Tells all to make ready for a probe.
    pub fn order(&self, order: Order) {
        self.say(&LeaderWord::Probe(Box::new(order)));
    }

    /// Lays down the start of the probe of this number, for which all are ready, and tells all.
    pub fn begin(&self, number: u64) -> Start {
        let start_us = self.clock.now_us() + LEAD.as_micros() as i64;
        self.say(&LeaderWord::Begin(number, start_us));
        let record = PartRecord { part: self.part, start_us, clock_error_s: 0.0, late_s: 0.0 };
        Start { at: self.clock.at(start_us), record }
    }

    /// Tells all that the probe of this number is over.
    pub fn stop(&self, number: u64) {
        self.say(&LeaderWord::Stop(number));
    }

    /// The next word of a part, if one comes within this time.
    pub fn hear(&self, within: Duration) -> Option<(u32, Heard)> {
        self.heard.recv_timeout(within).ok()
    }

    /// Tells all how the search has ended.
    pub fn end(mut self, ending: Ending) {
        self.over(ending);
    }

    fn over(&mut self, ending: Ending) {
        if !std::mem::replace(&mut self.over, true) {
            self.say(&LeaderWord::Over(Box::new(ending)));
        }
    }

    fn say(&self, word: &LeaderWord) {
        for order in &self.orders {
            // It only fails if the part has gone, which is heard of it.
            let _ = order.send(word.clone());
        }
    }
}

impl Drop for Leading {
    /// A search that nobody has ended has failed. The last words are said before the connections end.
    fn drop(&mut self) {
        self.over(Ending::Failed);
        self.orders.clear();
        // A thread that waits to be heard goes on.
        let (_, nobody) = mpsc::sync_channel(1);
        self.heard = nobody;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Part 1's side of a connection, to its end.
fn lead(
    mut line: Line,
    number: u32,
    clock: Clock,
    ordered: &Receiver<LeaderWord>,
    tell: &SyncSender<(u32, Heard)>,
) {
    let (mut said, mut heard) = (Instant::now(), Instant::now());
    let mut converse = || -> io::Result<()> {
        loop {
            loop {
                match ordered.try_recv() {
                    Ok(word) => line.say(&word)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
                said = Instant::now();
            }
            if said.elapsed() > HERE {
                line.say(&LeaderWord::Here)?;
                said = Instant::now();
            }
            let word = match line.hear::<FollowerWord>()? {
                None if heard.elapsed() > SILENCE => return Err(silent()),
                None => continue,
                Some(word) => word,
            };
            heard = Instant::now();
            let word = match word {
                FollowerWord::Here => continue,
                FollowerWord::Clock => {
                    line.say(&LeaderWord::Clock(clock.now_us()))?;
                    continue;
                }
                FollowerWord::Share(probe, told) => Heard::Share(probe, told),
                FollowerWord::Interrupted => Heard::Interrupted,
            };
            // Of a search that is over nobody hears any more; what is left to say is said above.
            let _ = tell.send((number, word));
        }
    };
    match converse() {
        Ok(()) => line.close(),
        // Nobody may listen any more.
        Err(error) => drop(tell.send((number, Heard::Lost(sign(&error))))),
    }
}

fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("it said nothing for {} s", SILENCE.as_secs()))
}

/// Sign by which a part has gone, as a message names it.
fn sign(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => "its connection was closed".into(),
        _ => error.to_string(),
    }
}

/// Probe that a follower is to make.
#[derive(Debug)]
pub struct Task {
    /// The order.
    pub order: Box<Order>,
    /// Its start by this machine's clock, when all parts are ready.
    pub start: Receiver<Start>,
    /// True as soon as the probe is over.
    pub stop: Arc<AtomicBool>,
}

/// Step of a search, as a follower hears of it.
#[derive(Debug)]
pub enum Next {
    /// A probe is to be made.
    Press(Task),
    /// The search is over.
    Over(Box<Ending>),
    /// Part 1 has gone, by this sign.
    Lost(String),
}

/// Another part than the first, with its connection to part 1.
#[derive(Debug)]
pub struct Following {
    words: Sender<FollowerWord>,
    next: Receiver<Next>,
    thread: Option<JoinHandle<()>>,
}

impl Following {
    /// Waits for the other parts as one that follows; as [`Leading::gather`].
    ///
    /// # Errors
    /// As [`Meeting::attend`].
    pub fn join(
        meeting: &Meeting,
        header: &RunHeader,
        limit: &str,
        interrupt: &AtomicBool,
        waits: &mut dyn FnMut(&[u32]),
    ) -> Result<Following, MeetError> {
        let line = meeting.join(&facts(meeting.part, header, limit), interrupt, waits)?;
        let (words, said) = mpsc::channel();
        let (tell, next) = mpsc::channel();
        let (part, patience) = (meeting.part, meeting.patience);
        let thread = thread::spawn(move || {
            let mut end =
                FollowerEnd { line, part, patience, follower: Follower::default(), task: None };
            let lost = end.converse(&said, &tell).err();
            end.stop();
            if let Some(error) = lost {
                // Nobody may listen any more.
                let _ = tell.send(Next::Lost(sign(&error)));
            }
        });
        Ok(Following { words, next, thread: Some(thread) })
    }

    /// Tells part 1.
    pub fn say(&self, word: FollowerWord) {
        // It only fails if part 1 has gone, which is the next step.
        let _ = self.words.send(word);
    }

    /// The next step. If the user asks to stop meanwhile, part 1 is told, and ends the search; if it does not within
    /// some seconds, it has gone.
    pub fn next(&self, interrupt: &AtomicBool) -> Next {
        let mut asked: Option<Instant> = None;
        loop {
            match self.next.recv_timeout(LOOK) {
                // It was ordered before part 1 knew: it ends as soon as it has begun.
                Ok(next) => return next,
                Err(RecvTimeoutError::Disconnected) => {
                    return Next::Lost("its connection was closed".into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            match asked {
                None if interrupt.load(Ordering::Relaxed) => {
                    self.say(FollowerWord::Interrupted);
                    asked = Some(Instant::now());
                }
                Some(asked) if asked.elapsed() > SILENCE => {
                    return Next::Lost(silent().to_string());
                }
                _ => {}
            }
        }
    }
}

impl Drop for Following {
    /// The last words are said before the connection ends.
    fn drop(&mut self) {
        let (nobody, _) = mpsc::channel();
        self.words = nobody;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A follower's side of its connection.
struct FollowerEnd {
    line: Line,
    part: RunPart,
    patience: Duration,
    follower: Follower,
    /// Probe that goes on.
    task: Option<Going>,
}

/// A probe that a follower makes, as its connection knows it.
struct Going {
    begin: Sender<Start>,
    stop: Arc<AtomicBool>,
}

impl FollowerEnd {
    fn stop(&self) {
        if let Some(Going { stop, .. }) = &self.task {
            stop.store(true, Ordering::Relaxed);
        }
    }

    fn converse(&mut self, said: &Receiver<FollowerWord>, tell: &Sender<Next>) -> io::Result<()> {
        let (mut spoke, mut heard) = (Instant::now(), Instant::now());
        let mut early = Vec::new();
        loop {
            loop {
                match said.try_recv() {
                    Ok(word) => self.tell(&word)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
                spoke = Instant::now();
            }
            if spoke.elapsed() > HERE {
                self.line.say(&FollowerWord::Here)?;
                spoke = Instant::now();
            }
            let word = match early.pop() {
                Some(word) => word,
                None => match self.line.hear::<LeaderWord>()? {
                    None if heard.elapsed() > SILENCE => return Err(silent()),
                    None => continue,
                    Some(word) => word,
                },
            };
            heard = Instant::now();
            match self.follower.hear(word) {
                Act::Nothing => {}
                Act::Press(order) => {
                    let (begin, start) = mpsc::channel();
                    let stop = Arc::new(AtomicBool::new(false));
                    self.task = Some(Going { begin, stop: Arc::clone(&stop) });
                    let _ = tell.send(Next::Press(Task { order, start, stop }));
                }
                Act::Begin(start_us) => {
                    let start = self.read_clock(start_us, &mut early)?;
                    if let Some(Going { begin, .. }) = &self.task {
                        // It only fails if the share has ended, which part 1 is told.
                        let _ = begin.send(start);
                    }
                }
                Act::Stop => self.stop(),
                Act::End(ending) => {
                    self.stop();
                    let _ = tell.send(Next::Over(ending));
                    return Ok(());
                }
                Act::Refuse(why) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
            }
        }
    }

    fn tell(&mut self, word: &FollowerWord) -> io::Result<()> {
        use crate::lockstep::Told;
        if let FollowerWord::Share(number, Told::Ended(..) | Told::Failed(_)) = word {
            self.follower.ended(*number);
        }
        self.line.say(word)
    }

    /// The start by this machine's clock; other words that come meanwhile wait, the last one first.
    fn read_clock(&mut self, start_us: i64, early: &mut Vec<LeaderWord>) -> io::Result<Start> {
        let mut reading = Reading::default();
        for _ in 0..Reading::TIMES {
            let asked = Instant::now();
            self.line.say(&FollowerWord::Clock)?;
            let host_us = loop {
                match self.line.hear::<LeaderWord>()? {
                    Some(LeaderWord::Clock(us)) => break us,
                    Some(word) => early.insert(0, word),
                    None if asked.elapsed() > SILENCE => return Err(silent()),
                    None => {}
                }
            };
            reading.take(asked, host_us);
        }
        Ok(reading.start(self.part, start_us, self.patience))
    }
}
