//! Run as one part of several, of HTTP and of SQL: its arguments, the wait for the others, and what is told of
//! parts.

use std::path::Path;
use std::time::Duration;

use advise::Span;
use clap::Args as ClapArgs;
use cli::Failure;
use cli::text::{next, paragraph, shell_word, time};
use indicatif::ProgressBar;
use load::http::Reach;
use load::meeting::{MeetError, Meeting};
use load::resolve;
use measure::{PartRecord, RunPart, RunRecord};

use databases::{PRESSES, out_of_reach};

#[derive(ClapArgs)]
#[command(next_help_heading = "Parts")]
pub(super) struct PartArgs {
    /// This is part K of N processes that share the load, on as many machines: start each with the same
    /// arguments but for this one. Clients, rate, requests and seed are those of all parts together, threads
    /// and connections those of each. With --knee part 1 decides each probe by what all have
    /// seen, and all tell the same knee
    #[arg(long, value_name = "K/N", requires = "meet")]
    part: Option<RunPart>,
    /// Where the parts meet: an address of part 1, to which the others connect; they start together
    #[arg(long, value_name = "HOST:PORT", requires = "part")]
    meet: Option<String>,
    /// How long a part waits for the others
    #[arg(long, value_name = "TIME", default_value = "1min", requires = "part")]
    patience: Span,
}

impl PartArgs {
    /// The part of a run that this is.
    pub(super) fn part(&self) -> RunPart {
        self.part.unwrap_or(RunPart::WHOLE)
    }

    /// Checks that a part makes one run.
    ///
    /// # Errors
    /// Several are asked for.
    pub(super) fn holds(&self, runs: usize) -> Result<(), Failure> {
        if self.part.is_some() && runs > 1 {
            return Err(Failure::Usage(
                "`--part` makes one run, and several are asked for: name one number of clients, and \
                 start all parts once for each"
                    .into(),
            ));
        }
        Ok(())
    }

    /// The meeting of the parts, if this is one of several.
    ///
    /// # Errors
    /// The place is none, or is out of reach.
    pub(super) fn meeting(&self, reach: Reach) -> Result<Option<Meeting>, Failure> {
        let (Some(part), Some(meet)) = (self.part, &self.meet) else { return Ok(None) };
        let wanted = || {
            Failure::Usage(format!(
                "`--meet {meet}` is no place: write the host of part 1 and a free port of it, such as \
                 10.0.0.5:7400"
            ))
        };
        let (host, port) = meet.rsplit_once(':').ok_or_else(wanted)?;
        let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(wanted)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(wanted());
        }
        let addresses =
            resolve(host, port, reach).map_err(|error| out_of_reach(&error, PRESSES))?;
        let patience = Duration::try_from_secs_f64(self.patience.0)
            .map_err(|error| Failure::Usage(format!("`--patience`: {error}")))?;
        Ok(Some(Meeting { part, addresses, patience }))
    }
}

/// Tells the bar for whom a part waits.
pub(super) fn waiting(bar: &ProgressBar) -> impl FnMut(&[u32]) + '_ {
    |missing| match missing.is_empty() {
        true => bar.set_message("measuring"),
        false => bar.set_message(format!("waiting for {}", measure::parts::named(missing))),
    }
}

/// Failure of a meeting; none if the user did not want to wait.
pub(super) fn unmet(error: MeetError) -> Option<Failure> {
    match error {
        MeetError::Interrupted => None,
        error => Some(Failure::usage(error)),
    }
}

/// Text on a run in several processes.
pub(super) fn text(record: &RunRecord) -> String {
    if let Some(PartRecord { part, clock_error_s, late_s, .. }) = &record.header.part {
        let knows = match part.number() {
            1 => String::new(),
            _ => format!(", which it knows to ± {} by the clock of part 1", time(*clock_error_s)),
        };
        return paragraph(&format!(
            "Part {part}: its load began {} after the start that all parts agreed on{knows}. Only the \
             records of all parts, merged, make a verdict.",
            time(*late_s),
        ));
    }
    let merged = &record.header.merged;
    if merged.is_empty() {
        return String::new();
    }
    let late = merged.iter().map(|merged| merged.part.late_s + merged.part.clock_error_s);
    let mut machines: Vec<&str> = merged.iter().map(|part| part.host.name.as_str()).collect();
    machines.dedup();
    paragraph(&format!(
        "Merged of {} parts, on {}; each began within {} of the common start.",
        merged.len(),
        machines.join(", "),
        time(late.fold(0.0, f64::max)),
    ))
}

/// The command that comes after a part.
pub(super) fn next_command(part: RunPart, path: &Path) -> String {
    let others = if part.of() > 2 { "RECORD..." } else { "RECORD" };
    next(&format!("sekisho measure merge {} {others}", shell_word(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meeting_has_a_host_and_a_port_within_reach() {
        let args = |meet: &str| PartArgs {
            part: Some("2/3".parse().unwrap()),
            meet: Some(meet.to_owned()),
            patience: Span(60.0),
        };
        for (meet, port) in [("127.0.0.1:7400", 7400), ("[::1]:9", 9), ("localhost:80", 80)] {
            let meeting = args(meet).meeting(Reach::Private).unwrap().unwrap();
            assert!(meeting.addresses.iter().all(|one| one.port() == port), "{meeting:?}");
        }
        let refused = |meet: &str| args(meet).meeting(Reach::Private).unwrap_err().to_string();
        for meet in ["", "127.0.0.1", ":7400", "127.0.0.1:0", "127.0.0.1:x", "a:70000"] {
            assert!(refused(meet).contains("such as 10.0.0.5:7400"), "{meet}: {}", refused(meet));
        }
        assert!(refused("203.0.113.1:7400").contains("`--public --public`"));
        assert!(args("203.0.113.1:7400").meeting(Reach::Anywhere).is_ok());
        let mut whole = args("127.0.0.1:7400");
        whole.part = None;
        assert!(whole.meeting(Reach::Private).unwrap().is_none());
        let holds = |args: &PartArgs, runs| args.holds(runs).is_ok();
        assert!(holds(&whole, 3) && !holds(&args("127.0.0.1:7400"), 2));
        assert!(holds(&args("127.0.0.1:7400"), 1));
    }
}
