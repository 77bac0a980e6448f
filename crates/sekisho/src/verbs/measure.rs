//! `sekisho measure http URL`: closed load, open load, load that varies, or the search for the knee.

use std::io::Write;

use clap::{Args as ClapArgs, Subcommand};
use cli::text::sentence;
use cli::{Failure, Session, Verdict, say};
use expectations::Expectation;
use load::http::{Load, PlanSpec};
use load::meeting::Meeting;
use measure::RunPart;

use super::http_target::{TargetArgs, press_part};
use super::load::{LoadArgs, length_s};
use super::measure_postgres::PostgresArgs;
use super::merge::MergeArgs;
use super::run_output::{Measurement, Noun, OutputArgs};
use super::typed::Typed;
use preflight::preflight;

#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Put load on an HTTP server
    ///
    /// A closed load (`--clients`) has so many clients that each wait for their answer; an open
    /// load (`--rate`) waits for nobody, and its response times count from the intended start. Before any
    /// load each kind of request is made once: what will not work is told at once.
    #[command(after_help = "\
Examples:
  sekisho measure http http://127.0.0.1:8080/ --clients 1,8,32 --duration 5s
  sekisho measure http http://127.0.0.1:8080/ --rate 1000/s --expect 'p99<50ms'
  sekisho measure http https://127.0.0.1:8443/ --http2 --clients 200 --insecure
  sekisho measure http http://127.0.0.1:8080 --get / --post /a '{}' --clients 4
  sekisho measure http http://127.0.0.1:8080/ --log access.log --speed 10
  sekisho measure http http://127.0.0.1:8080/ --steps 10s:100/s,10s:300/s
  sekisho measure http http://h/ --rate 90000/s --part 1/3 --meet 10.0.0.5:7400
      ends with 4: one part is no verdict
  sekisho measure http http://127.0.0.1:8080/ --knee 'p99<50ms'
      ends with 0 or 4: the knee, or this machine cannot tell it")]
    Http(Box<HttpArgs>),
    /// Put load on PostgreSQL with SQL of your own
    Postgres(Box<PostgresArgs>),
    Merge(MergeArgs),
}

#[derive(ClapArgs)]
pub(super) struct HttpArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let args = match &args.what {
        What::Http(args) => args,
        What::Postgres(args) => return super::measure_postgres::run(args, session, out),
        What::Merge(args) => return super::merge::run(args, session, out),
    };
    let Some(runs) = args.prepared(session)? else {
        return super::json::interrupted(args.json(), out);
    };
    if args.load.knee().is_some() {
        return super::knee_http::run(args, session, out);
    }
    let meeting = args.meeting()?;
    let seconds = runs.iter().map(|spec| length_s(spec.until, &spec.load, spec.warmup)).sum();
    let typed = Typed::of(&session.command);
    let measurement = Measurement { noun: Noun::Request, seconds, typed };
    args.output.of_runs(measurement, session, out, runs, |spec, bar| {
        press_part(spec, meeting.as_ref(), session, bar)
    })
}

impl HttpArgs {
    /// The runs that are asked for, after a look at the server; none if the user interrupted that. Of a
    /// search for the knee there is none, and the look is made all the same.
    fn prepared(&self, session: &Session) -> Result<Option<Vec<PlanSpec>>, Failure> {
        let mut site = self.target.site()?;
        let mut runs = match self.load.knee() {
            Some(limit) => super::knee::limit(limit).map(|_| Vec::new())?,
            None => {
                let runs = self.load.runs(site.log.as_ref())?.into_iter();
                runs.map(|run| run.on(site.spec.clone())).collect()
            }
        };
        self.output.holds(runs.len(), self.load.knee())?;
        self.load.parts.holds(runs.len())?;
        runs.iter_mut().for_each(|spec| spec.part = self.load.parts.part());
        // A place that is none is told before anybody is asked.
        self.meeting()?;
        // What is wrong with the plan is told before anybody is asked.
        for spec in &runs {
            load::http::Plan::new(spec.clone()).map_err(Failure::usage)?;
        }
        let mut notes = std::mem::take(&mut site.notes);
        if let Some(within) = site.preflight {
            notes.extend(preflight(&mut site.spec, within, session)?);
            runs.iter_mut().for_each(|spec| spec.requests.clone_from(&site.spec.requests));
        }
        if session.interrupted() {
            return Ok(None);
        }
        for note in &notes {
            say(&mut std::io::stderr(), &sentence(&format!("note: {note}")))?;
        }
        Ok(Some(runs))
    }

    /// An open load of this rate, spaced as asked for.
    pub(super) fn open(&self, rate: f64) -> Load {
        self.load.open(rate)
    }

    pub(super) fn spec(&self, load: Load) -> Result<PlanSpec, Failure> {
        Ok(self.load.at(load).on(self.target.site()?.spec))
    }

    pub(super) fn knee_limit(&self) -> Option<&Expectation> {
        self.load.knee()
    }

    /// The meeting of the parts, if this is one of several.
    pub(super) fn meeting(&self) -> Result<Option<Meeting>, Failure> {
        self.load.parts.meeting(self.target.reach())
    }

    /// The command of one run in one process, as it was typed but for its load.
    pub(super) fn command(&self, session: &Session) -> String {
        let typed = self.typed(session);
        typed.without("part").without("meet").without("patience").line()
    }

    /// The same of the part that this is, without the length of a probe.
    pub(super) fn command_of_run(&self, session: &Session) -> String {
        self.typed(session).without("duration").line()
    }

    fn typed(&self, session: &Session) -> Typed {
        Typed::of(&session.command).expect("a URL is required").for_another_load()
    }

    /// The part of a run that this is.
    pub(super) fn part(&self) -> RunPart {
        self.load.parts.part()
    }

    /// Length of a run's measurement, if it was asked for [s].
    pub(super) fn length_given_s(&self) -> Option<f64> {
        self.load.length_given_s()
    }

    /// Longest time of a search for the knee [s].
    pub(super) fn budget_s(&self) -> f64 {
        self.load.budget_s()
    }

    pub(super) fn json(&self) -> bool {
        self.output.json
    }

    pub(super) fn output(&self) -> &OutputArgs {
        &self.output
    }
}
