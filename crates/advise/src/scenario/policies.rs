//! Disciplines, routers and load information as scenario files and flags name them, and what they become at a
//! gate. One reader for both: what was simulated is what runs.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use gate::{
    AtZero, CohortSpec, DisciplineSpec, GateSpec, KeyDefault, KeyDown, KeyMap, KeyOf, KeyRow,
    Length, LoadInformation, Queues, RouterSpec, Ties, WeightedOrder, Window,
};
use serde::de::value::{MapAccessDeserializer, MapDeserializer, StrDeserializer};
use serde::de::{Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::compile::suggest;
use super::loads::above_zero;
use crate::units::{Bytes, PerByte, Span};

/// Rule for the next job: a name, or a table of a name and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(!remote, transform = crate::schema::names_alone))]
#[serde(
    remote = "Self",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum DisciplineEntry {
    /// First in, first out.
    Fifo,
    /// Last in, first out.
    Lifo,
    /// The highest priority first.
    Priority,
    /// The highest priority first, where waiting counts.
    PriorityAgeing {
        /// Worth of one priority in waiting time.
        #[cfg_attr(feature = "schema", schemars(transform = crate::schema::above_zero))]
        interval: Span,
    },
    /// The smallest size first.
    ShortestJob,
    /// The earliest deadline first.
    EarliestDeadline,
    /// Classes in turn.
    DeficitRoundRobin {
        /// Amount of a class that is served in its turn, by the size of its jobs; a job without
        /// size counts as 1 B.
        quantum: Bytes,
        /// Number of quanta that a class gets, by its name; left out, 1.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        weights: BTreeMap<String, u32>,
    },
    /// Jobs about cached keys first.
    Cohort {
        /// Number of keys that the cache holds.
        capacity: u32,
        /// Number of jobs about one key that may be served in a row while others wait.
        run_max: u32,
        /// Number of jobs about cached keys that may be served in a row while others wait; left
        /// out, any number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cached_max: Option<u32>,
        /// Number of priorities that have cohorts of their own; higher ones go before all. Left
        /// out, 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(extend("default" = 1)))]
        levels: Option<u8>,
    },
}

/// Rule for the server of a job: a name, or a table of a name and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(!remote, transform = crate::schema::names_alone))]
#[serde(
    remote = "Self",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum RouterEntry {
    /// Each with equal chance.
    Random,
    /// One after the other.
    RoundRobin,
    /// The one with the fewest jobs.
    ShortestQueue,
    /// An idle one; any if there is none.
    JoinIdleQueue,
    /// The one that was busy least.
    LowestUtilisation {
        /// Length of the recent time that counts; left out, all since the start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<Span>,
    },
    /// The largest K1 / length + K2 / utilisation.
    Ev {
        /// K1.
        queue: f64,
        /// K2.
        utilisation: f64,
        /// Length of the recent time over which the utilisation is taken; left out, all since the
        /// start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<Span>,
        /// Value of a length of 0; left out, it beats every other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(extend("default" = "best")))]
        at_zero: Option<AtZero>,
    },
    /// The one with the fewest jobs among some that are drawn.
    PowerOfD {
        /// Number of servers that are drawn.
        d: u32,
    },
    /// The one with the least work left, by the size of the jobs.
    LeastWork {
        /// Time that the work of a byte takes, so that a job in service counts with the work that
        /// is left of it; left out, it counts with its whole size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        per_byte: Option<PerByte>,
    },
    /// In proportion to weights.
    Weighted {
        /// One for each server.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        weights: Vec<u32>,
        /// Evenly spread or by chance; left out, evenly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(extend("default" = "rotate")))]
        order: Option<WeightedOrder>,
    },
    /// The one that the job's key or class belongs to; by hash, unless `bounds` or a `table` say.
    ByKey {
        /// The part of the job that decides; left out, the key: of a job about a document, its
        /// index.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(extend("default" = "key")))]
        of: Option<KeyOf>,
        /// Ranges: where the keys of the next server begin.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bounds: Option<Vec<u64>>,
        /// Keys, or names of classes, with the index of their server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        table: Option<BTreeMap<String, u32>>,
        /// Rule for those that the table does not name; left out, by hash.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(extend("default" = "hash")))]
        default: Option<KeyDefault>,
        /// Fate of jobs whose server is down; left out, they go to the next.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(extend("default" = "next")))]
        down: Option<KeyDown>,
    },
}

/// View of the router that is not as things are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LoadInformationEntry {
    /// As it was so long ago.
    Delay(Span),
    /// As it was at the last whole multiple of this.
    Refresh(Span),
    /// As the servers' reports say; for live gates only.
    Reported,
}

/// The policies of a gate as they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    /// Rule for the next job; left out, first in first out.
    pub discipline: Option<DisciplineEntry>,
    /// Rule for the server of a job; left out, round robin.
    pub router: Option<RouterEntry>,
    /// Count that routers use that look at queues; left out, jobs in system.
    pub length: Option<Length>,
    /// Choice among several equally good servers; left out, rotating.
    pub ties: Option<Ties>,
    /// View of the router; left out, everything as it is.
    pub load_information: Option<LoadInformationEntry>,
}

impl Policies {
    /// The same gate with these policies. `classes` are the names by which tables and weights mean
    /// the classes, in the order of their index.
    ///
    /// # Errors
    /// What does not fit together or is out of range, and the way out.
    pub fn at(&self, spec: GateSpec, classes: &[&str]) -> Result<GateSpec, String> {
        let spec = GateSpec {
            discipline: match &self.discipline {
                None => DisciplineSpec::Fifo,
                Some(entry) => entry.spec(classes)?,
            },
            router: self.router(&spec, classes)?,
            load_information: self.load_information()?,
            ..spec
        };
        gate::Gate::new(&GateSpec { room: Some(0), ..spec.clone() })
            .map_err(|error| error.to_string())?;
        Ok(spec)
    }

    fn load_information(&self) -> Result<LoadInformation, String> {
        let Some(load_information) = self.load_information else {
            return Ok(LoadInformation::Fresh);
        };
        let blind = match &self.router {
            None | Some(RouterEntry::Random | RouterEntry::RoundRobin) => true,
            Some(RouterEntry::Weighted { .. } | RouterEntry::ByKey { .. }) => true,
            Some(_) => false,
        };
        if blind {
            return Err("`load-information` is of routers that look at servers, and this one looks at none; \
                        remove it or choose another `router`"
                .into());
        }
        Ok(match load_information {
            LoadInformationEntry::Delay(span) => LoadInformation::Delayed(time("delay", span)?),
            LoadInformationEntry::Refresh(span) => {
                LoadInformation::Refreshed(time("refresh", span)?)
            }
            LoadInformationEntry::Reported => LoadInformation::Reported,
        })
    }

    fn router(&self, spec: &GateSpec, classes: &[&str]) -> Result<RouterSpec, String> {
        let router = self.router.as_ref().unwrap_or(&RouterEntry::RoundRobin);
        self.check_looks(router)?;
        let length = self.length.unwrap_or(Length::InSystem);
        let ties = self.ties.unwrap_or(Ties::Rotate);
        Ok(match router {
            RouterEntry::Random => RouterSpec::Random,
            RouterEntry::RoundRobin => RouterSpec::RoundRobin,
            RouterEntry::ShortestQueue => RouterSpec::ShortestQueue { length, ties },
            RouterEntry::JoinIdleQueue => RouterSpec::JoinIdleQueue { ties },
            RouterEntry::LowestUtilisation { window: since } => {
                RouterSpec::LowestUtilisation { window: window(*since)?, ties }
            }
            RouterEntry::Ev { queue, utilisation, window: since, at_zero } => RouterSpec::Ev {
                queue: *queue,
                utilisation: *utilisation,
                length,
                at_zero: at_zero.unwrap_or(AtZero::Best),
                window: window(*since)?,
                ties,
            },
            RouterEntry::PowerOfD { d } => RouterSpec::PowerOfD { d: *d, length, ties },
            RouterEntry::LeastWork { per_byte } => {
                RouterSpec::LeastWork { speed: per_byte.map(speed).transpose()?, ties }
            }
            RouterEntry::Weighted { weights, order } => {
                if weights.len() != spec.servers.len() {
                    return Err(format!(
                        "`weights` has {} numbers for {} servers; give one for each",
                        weights.len(),
                        spec.servers.len()
                    ));
                }
                let order = order.unwrap_or(WeightedOrder::Rotate);
                RouterSpec::Weighted { weights: weights.clone(), order }
            }
            RouterEntry::ByKey { of, bounds, table, default, down } => {
                if spec.queues == Queues::Shared && spec.servers.len() > 1 {
                    return Err("`by-key` needs a queue for each server, since one queue for all \
                                sends a job to whichever server is free; add \
                                `queues = \"per-server\"`"
                        .into());
                }
                let of = of.unwrap_or(KeyOf::Key);
                let map = key_map(of, bounds.as_deref(), table.as_ref(), *default, classes)?;
                RouterSpec::ByKey { of, map, down: down.unwrap_or(KeyDown::Next) }
            }
        })
    }

    /// `length` and `ties` are of those that look.
    fn check_looks(&self, router: &RouterEntry) -> Result<(), String> {
        let (at_lengths, at_servers) = match router {
            RouterEntry::ShortestQueue | RouterEntry::PowerOfD { .. } | RouterEntry::Ev { .. } => {
                (true, true)
            }
            RouterEntry::LowestUtilisation { .. }
            | RouterEntry::JoinIdleQueue
            | RouterEntry::LeastWork { .. } => (false, true),
            _ => (false, false),
        };
        if self.length.is_some() && !at_lengths {
            return Err("`length` is of routers that compare queues; add `router = \
                        \"shortest-queue\"` (or `power-of-d` or `ev`) or remove it"
                .into());
        }
        if self.ties.is_some() && !at_servers {
            return Err("`ties` is of routers that compare servers; add `router = \
                        \"shortest-queue\"` or remove it"
                .into());
        }
        Ok(())
    }

    /// Two answers: true if the jobs' sizes decide anything, and true if their keys do.
    pub(super) fn looks_at(&self) -> (bool, bool) {
        let sized = matches!(self.discipline, Some(DisciplineEntry::ShortestJob))
            || matches!(self.router, Some(RouterEntry::LeastWork { .. }));
        let keyed = matches!(self.discipline, Some(DisciplineEntry::Cohort { .. }))
            || matches!(self.router, Some(RouterEntry::ByKey { of: None | Some(KeyOf::Key), .. }));
        (sized, keyed)
    }
}

impl DisciplineEntry {
    fn spec(&self, classes: &[&str]) -> Result<DisciplineSpec, String> {
        Ok(match self {
            DisciplineEntry::Fifo => DisciplineSpec::Fifo,
            DisciplineEntry::Lifo => DisciplineSpec::Lifo,
            DisciplineEntry::Priority => DisciplineSpec::Priority,
            DisciplineEntry::PriorityAgeing { interval } => {
                DisciplineSpec::PriorityAgeing { interval: time("interval", *interval)? }
            }
            DisciplineEntry::ShortestJob => DisciplineSpec::ShortestJob,
            DisciplineEntry::EarliestDeadline => DisciplineSpec::EarliestDeadline,
            DisciplineEntry::DeficitRoundRobin { quantum, weights } => {
                let mut by_index = vec![1; classes.len()];
                for (name, weight) in weights {
                    by_index[class(name, classes)? as usize] = *weight;
                }
                DisciplineSpec::DeficitRoundRobin { quantum: quantum.0, weights: by_index }
            }
            &DisciplineEntry::Cohort { capacity, run_max, cached_max, levels } => {
                let levels = levels.unwrap_or(1);
                DisciplineSpec::Cohort(CohortSpec { capacity, run_max, cached_max, levels })
            }
        })
    }

    /// True if a job's priority decides anything.
    pub fn has_priorities(&self) -> bool {
        matches!(
            self,
            DisciplineEntry::Priority
                | DisciplineEntry::PriorityAgeing { .. }
                | DisciplineEntry::Cohort { .. }
        )
    }
}

fn key_map(
    of: KeyOf,
    bounds: Option<&[u64]>,
    table: Option<&BTreeMap<String, u32>>,
    default: Option<KeyDefault>,
    classes: &[&str],
) -> Result<KeyMap, String> {
    match (bounds, table) {
        (Some(_), Some(_)) => Err("`bounds` and `table` are both given; keep one".into()),
        (_, None) if default.is_some() => {
            Err("`default` is for what a `table` does not name; add one or remove it".into())
        }
        (Some(bounds), None) => Ok(KeyMap::Range { bounds: bounds.to_vec() }),
        (None, None) => Ok(KeyMap::Hash),
        (None, Some(table)) => {
            let key = |name: &str| {
                match of {
                KeyOf::Class => class(name, classes).map(u64::from),
                KeyOf::Key => name.parse().map_err(|_| {
                    format!(
                        "the table's key `{name}` is no number; to route classes by name, add `of = \
                         \"class\"`"
                    )
                }),
            }
            };
            let row = |(name, &server): (&String, &u32)| Ok(KeyRow { key: key(name)?, server });
            let rows = table.iter().map(row).collect::<Result<_, String>>()?;
            Ok(KeyMap::Table { rows, default: default.unwrap_or(KeyDefault::Hash) })
        }
    }
}

fn class(name: &str, classes: &[&str]) -> Result<u32, String> {
    let at = classes.iter().position(|class| *class == name).ok_or_else(|| {
        let way_out = suggest("class", name, classes.iter().copied());
        format!("no class is called `{name}`; {way_out}")
    })?;
    Ok(at as u32)
}

fn window(since: Option<Span>) -> Result<Window, String> {
    match since {
        None => Ok(Window::SinceStart),
        Some(span) => Ok(Window::Recent(time("window", span)?)),
    }
}

fn time(key: &str, span: Span) -> Result<Duration, String> {
    above_zero(key, span.0)?;
    Ok(Duration::from_secs_f64(span.0))
}

/// Bytes per second.
fn speed(per_byte: PerByte) -> Result<u64, String> {
    let speed = (1.0 / per_byte.0).round();
    if !(1.0..=1e18).contains(&speed) {
        return Err("`per-byte` is a time from 1e-18 s to 1 s for each byte".into());
    }
    Ok(speed as u64)
}

/// Reads a policy: a table as it is, a name as that name, or, where it has parameters, as that name
/// with an empty table of them, so that what is missing is named.
struct NameOrTable<T> {
    expected: &'static str,
    with_parameters: &'static [&'static str],
    makes: PhantomData<T>,
}

/// A policy by name alone.
enum Form<'a> {
    Plain(&'a str),
    Empty(&'a str),
}

impl<'de> Deserializer<'de> for Form<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.deserialize_enum("", &[], visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match self {
            Form::Plain(text) => {
                let plain: StrDeserializer<'_, Self::Error> = text.into_deserializer();
                plain.deserialize_enum(name, variants, visitor)
            }
            Form::Empty(text) => {
                let empty = BTreeMap::from([(text, BTreeMap::<&str, u8>::new())]);
                let map = MapDeserializer::new(empty.into_iter());
                MapAccessDeserializer::new(map).deserialize_enum(name, variants, visitor)
            }
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de, T: Table> Visitor<'de> for NameOrTable<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<T, E> {
        let form = if self.with_parameters.contains(&name) {
            Form::Empty(name)
        } else {
            Form::Plain(name)
        };
        T::read(form).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let read = T::read(MapAccessDeserializer::new(&mut map))?;
        match map.next_key::<String>()? {
            None => Ok(read),
            Some(key) => Err(A::Error::custom(format!(
                "`{key}` stands beside the name of a policy, which is alone in its table; remove it, or \
                 put it into the table of its parameters"
            ))),
        }
    }
}

/// Reader that is derived for the table form.
trait Table: Sized {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

macro_rules! name_or_table {
    ($entry:ident, $expected:literal, $with_parameters:expr) => {
        impl Table for $entry {
            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                // Derived for `remote`, so that it is no recursion.
                $entry::deserialize(deserializer)
            }
        }

        impl<'de> Deserialize<'de> for $entry {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(NameOrTable {
                    expected: $expected,
                    with_parameters: $with_parameters,
                    makes: PhantomData,
                })
            }
        }

        impl Serialize for $entry {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $entry::serialize(self, serializer)
            }
        }
    };
}

name_or_table!(
    DisciplineEntry,
    "a discipline such as \"fifo\", or a table such as { priority-ageing = { interval = \"2s\" } }",
    &["priority-ageing", "deficit-round-robin", "cohort"]
);
name_or_table!(
    RouterEntry,
    "a router such as \"round-robin\", or a table such as { power-of-d = { d = 2 } }",
    &["lowest-utilisation", "ev", "power-of-d", "least-work", "weighted", "by-key"]
);
