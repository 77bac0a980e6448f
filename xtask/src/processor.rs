//! The processor time of a child and of all that it has waited for: where a suite's time goes is told by it, also
//! on a machine that does other work. Linux tells it as long as nobody has taken the status of the ended child.

use std::fmt;
use std::fs;
use std::time::Duration;

/// Ticks of a second in `/proc`, on every architecture of Linux that has a compiler.
const TICKS_PER_S: u64 = 100;

/// The cost of something that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Took {
    pub(crate) time: Duration,
    /// Processor time, where it is known.
    pub(crate) processor: Option<Duration>,
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.time.as_secs_f64())?;
        match self.processor {
            Some(spent) => write!(f, ", of processors {:.1} s", spent.as_secs_f64()),
            None => Ok(()),
        }
    }
}

/// A child, as the system sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Child {
    Runs,
    /// It has ended, and its status has not been taken. With its time, children that it waited for included.
    Ended(Duration),
    /// There is no `/proc`.
    Unknown,
}

/// The child with this id, whose status has not been taken.
pub(crate) fn child(id: u32) -> Child {
    fs::read_to_string(format!("/proc/{id}/stat")).map_or(Child::Unknown, |stat| read(&stat))
}

/// Reads `id (name) state parent ...`, where the name may hold anything, even `) `.
fn read(stat: &str) -> Child {
    let words: Option<Vec<&str>> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect());
    let Some(words) = words else { return Child::Unknown };
    // Of the whole line, the 3rd word is the state; the 14th to the 17th are the ticks in the program and in the
    // kernel, then those of the children.
    match (words.first(), words.get(11..15)) {
        (Some(&("Z" | "X")), Some(ticks)) => {
            let sum: u64 = ticks.iter().filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
            Child::Ended(Duration::from_millis(sum * (1_000 / TICKS_PER_S)))
        }
        (Some(_), Some(_)) => Child::Runs,
        _ => Child::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_child_tells_its_time_and_that_of_its_children() {
        let line = |state: &str| {
            format!("7 (a) b) {state} 1 7 7 0 -1 4 100 200 0 0 150 25 300 75 20 0 1 0 99 0 0")
        };
        assert_eq!(read(&line("Z")), Child::Ended(Duration::from_millis(5_500)));
        assert_eq!(read(&line("S")), Child::Runs);
        assert_eq!(read("7 (cut"), Child::Unknown);
        assert_eq!(read("7 (cut) Z 1"), Child::Unknown);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_that_has_waited_for_one_that_computed_has_its_time() {
        let script = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'";
        let mut shell = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let spent = loop {
            match child(shell.id()) {
                Child::Runs => std::thread::sleep(Duration::from_millis(5)),
                Child::Ended(spent) => break spent,
                Child::Unknown => panic!("Linux has /proc"),
            }
        };
        assert!(shell.wait().unwrap().success());
        assert!(spent >= Duration::from_millis(20), "{spent:?} for 300,000 steps of a shell");
    }
}
