//! Parts that the measurements of all papers have in common: how long and how much, which
//! PostgreSQL, how far they are, and what an interrupt ends.

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tpcc::{Config, LoadError, LoadPlan};

use cli::text::sentence;
use cli::{Failure, Session, progress};
use indicatif::ProgressBar;
use postgres::{Private, Settings, StartError};

/// Amount of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every point of the paper's figures.
    Full,
    /// The points that claims are about.
    Small,
}

/// Measurements, one step after the other.
#[derive(Debug)]
pub struct Measuring<'a> {
    pub(super) seed: u64,
    /// Length of each measured run \[s\]; 0 where work and not time is what a run is made of.
    pub(super) seconds: f64,
    pub(super) extent: Extent,
    server: Settings,
    supervised: origin::Supervised,
    session: &'a Session,
    bar: ProgressBar,
    /// The release of PostgreSQL that was started.
    version: OnceLock<String>,
}

impl<'a> Measuring<'a> {
    /// Says what is going to be done, and what an interrupt leaves: before all else, since it takes
    /// minutes. Nothing is started yet. Private servers are made from `server`.
    pub fn new(
        (seed, seconds, extent): (u64, f64, Extent),
        (server, supervised, session): (Settings, origin::Supervised, &'a Session),
        plan: &str,
    ) -> Measuring<'a> {
        let text = format!(
            "{plan} Ctrl-C ends it within seconds and leaves nothing: what was started is stopped, and \
             its data is removed."
        );
        // Who closed standard error does not want to know.
        let _ = write!(std::io::stderr(), "{}", sentence(&text));
        let bar = progress(0, "models");
        Measuring {
            seed,
            seconds,
            extent,
            server,
            supervised,
            session,
            bar,
            version: OnceLock::new(),
        }
    }

    /// The measurements begin, in so many steps. From now on an interrupt is waited for.
    pub(super) fn begin(&self, steps: u64) -> Result<(), Failure> {
        self.session.catch_interrupts()?;
        self.bar.set_length(steps);
        // The models before were no step of these.
        self.bar.reset();
        Ok(())
    }

    /// A step begins, unless the user asked to stop.
    pub(super) fn step(&self, what: &str) -> Result<(), Failure> {
        self.unless_interrupted(what)?;
        self.bar.set_message(what.to_owned());
        self.bar.tick();
        Ok(())
    }

    /// A step has ended. What an interrupt has cut short counts for nothing.
    pub(super) fn done(&self, what: &str) -> Result<(), Failure> {
        self.unless_interrupted(what)?;
        self.bar.inc(1);
        Ok(())
    }

    /// Refuses what an interrupt has cut short: it is not a result.
    pub(super) fn unless_interrupted(&self, what: &str) -> Result<(), Failure> {
        match self.session.interrupted() {
            true => Err(Failure::Interrupted(what.to_owned())),
            false => Ok(()),
        }
    }

    /// Whoever waits looks here whether it is still wanted.
    pub(super) fn interrupt(&self) -> &AtomicBool {
        &self.session.interrupt
    }

    /// The permission to start worker processes.
    pub(super) fn supervised(&self) -> origin::Supervised {
        self.supervised
    }

    /// A private server with these settings, and with the password if one is given.
    pub(super) fn server(
        &self,
        parameters: &[(&str, &str)],
        password: Option<String>,
    ) -> Result<Private, Failure> {
        let what = "starting a server";
        self.unless_interrupted(what)?;
        let parameters = parameters.iter().map(|&(name, value)| (name.into(), value.into()));
        let server = Private::start(&Settings {
            parameters: parameters.collect(),
            password,
            interrupt: Some(Arc::clone(&self.session.interrupt)),
            ..self.server.clone()
        });
        let server = server.map_err(|error| match error {
            StartError::Interrupted => Failure::Interrupted(what.into()),
            error => Failure::machine(error),
        })?;
        self.version.get_or_init(|| server.programs().version().to_owned());
        Ok(server)
    }

    /// Loads warehouses: a step. How many bytes they take.
    pub(super) fn load(&self, config: &Config, warehouses: u32) -> Result<u64, Failure> {
        let what = match warehouses {
            1 => "loading 1 warehouse".to_owned(),
            _ => format!("loading {warehouses} warehouses"),
        };
        self.step(&what)?;
        let plan = LoadPlan::new(self.seed, warehouses);
        let loaded = tpcc::load(config, &plan, self.interrupt(), &mut |now| {
            let share = now.done as f64 / now.of.max(1) as f64 * 100.0;
            self.bar.set_prefix(format!("{share:.0} %"));
        });
        self.bar.set_prefix("");
        let bytes = match loaded {
            Ok(loaded) => loaded.bytes,
            Err(LoadError::Interrupted) => return Err(Failure::Interrupted(what)),
            Err(error) => return Err(Failure::machine(error)),
        };
        self.done(&what)?;
        Ok(bytes)
    }

    /// The length of a run.
    pub(super) fn length(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Facts that it takes to know what was measured: key, value, unit.
    pub fn facts(&self) -> Vec<(String, String, String)> {
        let extent = match self.extent {
            Extent::Full => "full",
            Extent::Small => "small",
        };
        let version = self.version.get().map(|version| ("PostgreSQL", version.clone(), ""));
        let length =
            (self.seconds > 0.0).then(|| ("length of a run", self.seconds.to_string(), "s"));
        let all = version.into_iter().chain([("setting", extent.into(), "")]).chain(length);
        all.map(|(key, value, unit)| (key.into(), value, unit.into())).collect()
    }
}

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// About how long something takes, for a person.
pub(super) fn about(seconds: f64) -> String {
    match (seconds / 60.0).ceil() {
        minutes if minutes <= 1.0 => "about a minute".to_owned(),
        minutes => format!("about {minutes:.0} minutes"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn an_interrupt_ends_the_step_that_it_came_in() {
        let session = Session::new();
        let measuring = Measuring::new(
            (1, 2.0, Extent::Small),
            (Settings::default(), origin::run_if_supervisor(), &session),
            "Two runs.",
        );
        measuring.bar.set_length(2);
        assert!(measuring.step("run 1 of 2").is_ok() && measuring.done("run 1 of 2").is_ok());
        assert_eq!(measuring.bar.position(), 1);
        assert!(measuring.step("run 2 of 2").is_ok());
        session.interrupt.store(true, Ordering::Relaxed);
        let stopped = measuring.done("run 2 of 2");
        assert!(matches!(stopped, Err(Failure::Interrupted(at)) if at == "run 2 of 2"));
        assert_eq!(measuring.bar.position(), 1, "what was cut short is not done");
        assert!(matches!(measuring.server(&[], None), Err(Failure::Interrupted(_))));
        assert_eq!(measuring.facts()[0].1, "small", "nothing was started");
    }

    #[test]
    fn minutes_are_rounded_up() {
        assert_eq!(
            [30.0, 61.0, 290.0].map(about),
            ["about a minute", "about 2 minutes", "about 5 minutes"]
        );
    }
}
