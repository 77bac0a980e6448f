//! The gates that a recorded load is taken to: the recorded one, and others that the flags name.

use std::time::Duration;

use advise::{DisciplineEntry, LoadInformationEntry, Policies, RouterEntry, Span, Unreachable};
use clap::{Args as ClapArgs, ValueEnum};
use cli::Failure;
use formats::scenario_file::parse_value;
use gate::{GateSpec, Length, Queues, ServerSpec, Ties};
use sim::recorded::Resizes;

use crate::recording::Recorded;

/// Flags that name other gates than the recorded one; those of `gate http`, but for several values.
#[derive(ClapArgs)]
#[command(next_help_heading = "Options with a recording")]
pub(crate) struct OtherGates {
    /// Slots of each server: `4,16` for a gate with 4 and one with 16; `8+4` for two servers of 8 and 4
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = slots)]
    slots: Vec<Slots>,
    /// Who is next, as `gate http` has it; say it once for each
    #[arg(long, value_name = "POLICY", value_parser = named::<DisciplineEntry>)]
    discipline: Vec<Named<DisciplineEntry>>,
    /// Where to, with several servers, as `gate http` has it; say it once for each
    #[arg(long, value_name = "POLICY", value_parser = named::<RouterEntry>)]
    router: Vec<Named<RouterEntry>>,
    /// What these routers count that compare queues: in-system (left out) or waiting
    #[arg(long, value_name = "LENGTH", requires = "router", value_parser = parse_value::<Length>)]
    length: Option<Length>,
    /// Which of equally good servers: rotate (left out), lowest or random
    #[arg(long, value_name = "TIES", requires = "router", value_parser = parse_value::<Ties>)]
    ties: Option<Ties>,
    /// Age of the load information that these routers see: '{ delay = "100ms" }' or '{ refresh = "1s" }'
    #[arg(long, value_name = "AGE", requires = "router", value_parser = parse_value::<LoadInformationEntry>)]
    load_information: Option<LoadInformationEntry>,
    /// One queue for all servers, or one for each
    #[arg(long, value_enum, value_delimiter = ',', value_name = "QUEUES,...")]
    queues: Vec<QueuesName>,
    /// Most jobs that may wait
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    room: Vec<u64>,
    /// Longest wait of a job
    #[arg(long, value_delimiter = ',', value_name = "TIME,...")]
    wait_max: Vec<Span>,
    /// How long a job may wait while no server is up: a time, `refuse` or `wait`
    #[arg(long, value_delimiter = ',', value_name = "TIME,...")]
    unreachable: Vec<Unreachable>,
    /// Take a file that is cut off as far as it goes
    #[arg(long)]
    pub(crate) partial: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum QueuesName {
    /// One queue for all servers
    Shared,
    /// A queue for each server
    PerServer,
}

/// The slots of each server, one number for all or one for each.
#[derive(Clone, Debug)]
struct Slots(Vec<u32>);

fn slots(text: &str) -> Result<Slots, String> {
    let wrong = |_| "wanted are whole numbers such as `4,16`, or `8+4` for two servers".to_owned();
    text.split('+')
        .map(|number| number.trim().parse().map_err(wrong))
        .collect::<Result<_, _>>()
        .map(Slots)
}

/// A policy, and the text that names it.
#[derive(Clone, Debug)]
struct Named<T> {
    text: String,
    value: T,
}

fn named<T: serde::de::DeserializeOwned>(text: &str) -> Result<Named<T>, String> {
    parse_value(text).map(|value| Named { text: text.trim().to_owned(), value })
}

/// A gate that the load is taken to.
#[derive(Clone)]
pub(super) struct OtherGate {
    /// Its difference to the recorded one in words: `slots 16, lifo`.
    pub(super) name: String,
    pub(super) spec: GateSpec,
    pub(super) resizes: Resizes,
}

/// More gates than this are surely a mistake.
const GATES_MAX: usize = 100;
/// Name of the recorded gate, simulated.
pub(super) const AS_IT_WAS: &str = "as it was";

impl OtherGates {
    /// The first flag that was given.
    pub(crate) fn first_flag(&self) -> Option<&'static str> {
        let given = [
            ("--slots", !self.slots.is_empty()),
            ("--discipline", !self.discipline.is_empty()),
            ("--router", !self.router.is_empty()),
            ("--queues", !self.queues.is_empty()),
            ("--room", !self.room.is_empty()),
            ("--wait-max", !self.wait_max.is_empty()),
            ("--unreachable", !self.unreachable.is_empty()),
            ("--partial", self.partial),
        ];
        given.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    /// True if slots are among what is changed.
    pub(crate) fn changes_slots(&self) -> bool {
        !self.slots.is_empty()
    }

    /// The recorded gate, and then every combination of the values.
    pub(super) fn gates(&self, recorded: &Recorded) -> Result<Vec<OtherGate>, Failure> {
        let names = recorded.class_names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (name, spec) = (String::new(), recorded.spec.clone());
        let base = OtherGate { name, spec, resizes: Resizes::Again };
        let resizes = if self.changes_slots() { Resizes::LeftOut } else { Resizes::Again };
        let mut all = vec![OtherGate { resizes, ..base.clone() }];
        all = each(all, &self.slots, |spec, slots| {
            let text = format!("slots {}", slots.text());
            Ok((text, GateSpec { servers: slots.servers(spec.servers.len())?, ..spec }))
        })?;
        all = each(all, &self.queues, |spec, queues| {
            let (text, queues) = match queues {
                QueuesName::Shared => ("shared", Queues::Shared),
                QueuesName::PerServer => ("per-server", Queues::PerServer),
            };
            Ok((text.into(), GateSpec { queues, ..spec }))
        })?;
        all = each(all, &self.discipline, |spec, named| {
            let discipline = Some(named.value.clone());
            let changed =
                Policies { discipline, ..Policies::default() }.at(spec.clone(), &names)?;
            Ok((named.text.clone(), GateSpec { discipline: changed.discipline, ..spec }))
        })?;
        all = each(all, &self.router, |spec, named| {
            let policies = Policies {
                router: Some(named.value.clone()),
                length: self.length,
                ties: self.ties,
                load_information: self.load_information,
                ..Policies::default()
            };
            let changed = policies.at(spec.clone(), &names)?;
            Ok((named.text.clone(), GateSpec { discipline: spec.discipline, ..changed }))
        })?;
        all = each(all, &self.room, |spec, &room| {
            Ok((format!("room {room}"), GateSpec { room: Some(room), ..spec }))
        })?;
        all = each(all, &self.wait_max, |spec, span| {
            let wait_max =
                Duration::try_from_secs_f64(span.0).map_err(|error| error.to_string())?;
            Ok((format!("wait {span}"), GateSpec { wait_max: Some(wait_max), ..spec }))
        })?;
        all = each(all, &self.unreachable, |spec, unreachable| {
            let unreachable_max = unreachable.limit(spec.wait_max);
            Ok((format!("unreachable {unreachable}"), GateSpec { unreachable_max, ..spec }))
        })?;
        if all.len() > 1 || !all[0].name.is_empty() {
            all.insert(0, base);
        }
        all[0].name = AS_IT_WAS.into();
        if let Some(wrong) = all.iter().find_map(|gate| Some((gate, check(&gate.spec).err()?))) {
            let (gate, error) = wrong;
            return Err(Failure::Usage(format!("{}: {error}", gate.name)));
        }
        Ok(all)
    }
}

fn check(spec: &GateSpec) -> Result<(), String> {
    gate::Gate::new(spec).map(|_| ()).map_err(|error| error.to_string())
}

/// Each of the gates with each of the values; as they are if there is none.
fn each<T>(
    gates: Vec<OtherGate>,
    values: &[T],
    change: impl Fn(GateSpec, &T) -> Result<(String, GateSpec), String>,
) -> Result<Vec<OtherGate>, Failure> {
    if values.is_empty() {
        return Ok(gates);
    }
    if gates.len() * values.len() > GATES_MAX {
        return Err(Failure::Usage(format!(
            "the values combine to {} gates, and at most {GATES_MAX} are simulated: leave some out",
            gates.len() * values.len()
        )));
    }
    let changed = gates.iter().flat_map(|gate| values.iter().map(move |value| (gate, value)));
    let changed = changed.map(|(gate, value)| {
        let (text, spec) = change(gate.spec.clone(), value).map_err(Failure::Usage)?;
        let name = if gate.name.is_empty() { text } else { format!("{}, {text}", gate.name) };
        Ok(OtherGate { name, spec, resizes: gate.resizes })
    });
    changed.collect()
}

impl Slots {
    fn text(&self) -> String {
        self.0.iter().map(u32::to_string).collect::<Vec<_>>().join("+")
    }

    /// One number is for all servers that were recorded; several are a server each.
    fn servers(&self, recorded: usize) -> Result<Vec<ServerSpec>, String> {
        let servers = match &self.0[..] {
            [slots] => vec![ServerSpec { slots: *slots }; recorded],
            each => each.iter().map(|&slots| ServerSpec { slots }).collect(),
        };
        match servers.iter().all(|server| server.slots == 0) {
            true => Err("`--slots 0` lets nobody in: say at least 1".into()),
            false => Ok(servers),
        }
    }
}
