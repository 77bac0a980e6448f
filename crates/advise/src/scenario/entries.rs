//! Reading the entries that have several forms. A derived reader would try one form after the other
//! and then say only that none fits; these look at which keys are there, so that an error names the
//! key, and the parser the place.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use workload::Draw;

use super::{
    BecomeEntry, ByteDemand, ChoiceEntry, ChooseEntry, DemandEntry, DistEntry, DistName,
    DocumentEntry, DocumentsEntry, ForkEntry, LognormalEntry, LookupEntry, OfTrace, RepeatEntry,
    RouteEntry, SendEntry, ShapedEntry, SizesEntry, VisitEntry, VisitsEntry,
};
use crate::units::{PerByte, Span};

/// An entry that is a text or a table: `TEXT` and `TABLE` make it.
struct TextOrTable<T, M> {
    expected: &'static str,
    text: fn(&str) -> Result<T, String>,
    table: fn(M) -> Result<T, String>,
}

impl<'de, T, M: Deserialize<'de>> Visitor<'de> for TextOrTable<T, M> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.text)(text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        let table = M::deserialize(MapAccessDeserializer::new(map))?;
        (self.table)(table).map_err(A::Error::custom)
    }
}

/// A step of a route that is more than a name.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Step", transform = kinds))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct StepTable {
    /// The station that is visited.
    visit: Option<String>,
    /// Mean number of times that the `route` is gone, or the station visited, above 0: 2.5 is twice,
    /// and once more with a chance of a half.
    #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)), schemars(range(max = 1e5)))]
    visits: Option<f64>,
    /// The demand of this visit, instead of the station's.
    demand: Option<DemandEntry>,
    /// Several ways, of which each job goes one by chance.
    choose: Option<Vec<ChoiceEntry>>,
    /// The chance of going the `route` again, each time.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0), extend("exclusiveMaximum" = 1)))]
    repeat: Option<f64>,
    /// The way that is gone several times.
    route: Option<Vec<RouteEntry>>,
    /// The way of a job of its own, for which nobody waits.
    send: Option<Vec<RouteEntry>>,
    /// The ways of jobs of their own, which begin at once.
    fork: Option<Vec<Vec<RouteEntry>>>,
    /// Number of ways that are waited for; left out, all.
    join: Option<u32>,
    /// The class of the job from here on.
    r#become: Option<String>,
    /// The cache that is asked for the job's key.
    lookup: Option<String>,
    /// The way if it has the key; left out, straight on.
    hit: Option<Vec<RouteEntry>>,
    /// The way if it has not.
    miss: Option<Vec<RouteEntry>>,
}

impl StepTable {
    /// The keys that are there.
    fn keys(&self) -> Vec<&'static str> {
        let given = [
            ("visit", self.visit.is_some()),
            ("demand", self.demand.is_some()),
            ("choose", self.choose.is_some()),
            ("repeat", self.repeat.is_some()),
            ("visits", self.visits.is_some()),
            ("route", self.route.is_some()),
            ("send", self.send.is_some()),
            ("fork", self.fork.is_some()),
            ("join", self.join.is_some()),
            ("become", self.r#become.is_some()),
            ("lookup", self.lookup.is_some()),
            ("hit", self.hit.is_some()),
            ("miss", self.miss.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect()
    }
}

/// Each kind of step: the key that makes it one, and those that may stand beside it.
const KINDS: [(&str, &[&str]); 8] = [
    ("visit", &["demand", "visits"]),
    ("choose", &[]),
    ("repeat", &["route"]),
    ("visits", &["route"]),
    ("send", &[]),
    ("fork", &["join"]),
    ("become", &[]),
    ("lookup", &["hit", "miss"]),
];

/// Rules for the keys of a step, by [`KINDS`], which [`step`] obeys.
#[cfg(feature = "schema")]
fn kinds(schema: &mut schemars::Schema) {
    use crate::schema::{at_least_one_where_there, exactly_one_kind};
    exactly_one_kind(schema, &KINDS);
    for (key, needed) in
        [("visit", &["demand", "visits"][..]), ("repeat", &["route"]), ("lookup", &["miss"])]
    {
        at_least_one_where_there(schema, key, needed);
    }
    at_least_one_where_there(schema, "visits", &["route", "visit"]);
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RouteEntry {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RouteEntry".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let table = generator.subschema_for::<StepTable>();
        schemars::json_schema!({
            "title": "step",
            "description": "A step of a route: the name of a gate or a station, or a table. `server` is the \
                station of the server held; from `reply` on the client does not wait for the rest of what is \
                inside a gate.",
            "anyOf": [{ "type": "string" }, table],
        })
    }
}

impl<'de> Deserialize<'de> for RouteEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RouteEntry, D::Error> {
        deserializer.deserialize_any(TextOrTable {
            expected: "a step: the name of a gate or a station, or a table with `visit`, `choose`, \
                       `repeat`, `visits`, `send`, `fork`, `become` or `lookup`",
            text: |name| Ok(RouteEntry::Name(name.to_owned())),
            table: step,
        })
    }
}

fn step(table: StepTable) -> Result<RouteEntry, String> {
    let keys = table.keys();
    let Some((kind, others)) = KINDS.iter().find(|(kind, _)| keys.contains(kind)) else {
        return Err(
            "a step is a name, or has `visit`, `choose`, `repeat`, `visits`, `send`, `fork`, `become` \
             or `lookup`; this has none of them"
                .into(),
        );
    };
    if let Some(strange) = keys.iter().find(|key| *key != kind && !others.contains(key)) {
        return Err(format!(
            "a step with `{kind}` has no `{strange}`; these keys belong to different kinds"
        ));
    }
    let StepTable { visit, demand, choose, repeat, route, send, fork, join, r#become, .. } = table;
    if let Some(visit) = visit {
        let once = match (demand, table.visits) {
            (Some(demand), _) => RouteEntry::Visit(VisitEntry { visit, demand }),
            (None, Some(_)) => RouteEntry::Name(visit),
            (None, None) => {
                return Err(format!(
                    "a step with `visit` needs its own `demand`, or `visits`; without one, write \
                     \"{visit}\""
                ));
            }
        };
        return Ok(match table.visits {
            Some(visits) => RouteEntry::Visits(VisitsEntry { visits, route: vec![once] }),
            None => once,
        });
    }
    if let Some(visits) = table.visits {
        let route = route.ok_or("a step with `visits` needs the `route` to go so many times")?;
        return Ok(RouteEntry::Visits(VisitsEntry { visits, route }));
    }
    if let Some(repeat) = repeat {
        let route = route.ok_or("a step with `repeat` needs the `route` to go again")?;
        return Ok(RouteEntry::Repeat(RepeatEntry { repeat, route }));
    }
    if let Some(lookup) = table.lookup {
        let miss = table.miss.ok_or("a step with `lookup` needs the way to go on a `miss`")?;
        let hit = table.hit.unwrap_or_default();
        return Ok(RouteEntry::Lookup(LookupEntry { lookup, hit, miss }));
    }
    let choose = choose.map(|choose| RouteEntry::Choose(ChooseEntry { choose }));
    let send = send.map(|send| RouteEntry::Send(SendEntry { send }));
    let fork = fork.map(|fork| RouteEntry::Fork(ForkEntry { fork, join }));
    let becomes = r#become.map(|class| RouteEntry::Become(BecomeEntry { r#become: class }));
    Ok(choose.or(send).or(fork).or(becomes).expect("one of the kinds was found above"))
}

impl<'de> Deserialize<'de> for DistEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DistEntry, D::Error> {
        deserializer.deserialize_any(TextOrTable {
            expected: "a time such as \"250ms\", or a table with `mean` and `dist` or `scv`",
            text: constant,
            table: |shaped: ShapedEntry| Ok(DistEntry::Shaped(shaped)),
        })
    }
}

fn constant(text: &str) -> Result<DistEntry, String> {
    text.parse::<Span>().map(DistEntry::Constant).map_err(|error| error.to_string())
}

/// All the keys that a demand may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DemandTable {
    mean: Option<Span>,
    dist: Option<DistName>,
    scv: Option<f64>,
    per_byte: Option<PerByte>,
    base: Option<Span>,
}

impl<'de> Deserialize<'de> for DemandEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DemandEntry, D::Error> {
        deserializer.deserialize_any(TextOrTable {
            expected: "a time such as \"5ms\", a table with `mean` and `dist` or `scv`, or a table \
                       with `per-byte` and `base`",
            text: |text| match text {
                "trace" => Ok(DemandEntry::OfTrace(OfTrace::Trace)),
                text => constant(text).map(DemandEntry::Time),
            },
            table: demand,
        })
    }
}

fn demand(table: DemandTable) -> Result<DemandEntry, String> {
    let DemandTable { mean, dist, scv, per_byte, base } = table;
    let timed = mean.is_some() || dist.is_some() || scv.is_some();
    match (mean, per_byte, base) {
        (Some(mean), None, None) => {
            Ok(DemandEntry::Time(DistEntry::Shaped(ShapedEntry { mean, dist, scv })))
        }
        (None, Some(per_byte), Some(base)) if !timed => {
            Ok(DemandEntry::BySize(ByteDemand { per_byte, base }))
        }
        (_, None, None) => Err("a demand by time needs `mean`".into()),
        (None, Some(_), None) if !timed => {
            Err("a demand by size needs `base`, the time at size 0".into())
        }
        (None, None, Some(_)) if !timed => {
            Err("a demand by size needs `per-byte`, such as \"0.485us/kB\"".into())
        }
        _ => {
            Err("a demand has `mean` with `dist` or `scv`, or `per-byte` with `base`; these keys \
                  belong to both"
                .into())
        }
    }
}

/// All the keys that sizes may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SizesTable {
    documents: Option<Vec<DocumentEntry>>,
    draw: Option<Draw>,
    lognormal_mu: Option<f64>,
    lognormal_sigma: Option<f64>,
}

impl<'de> Deserialize<'de> for SizesEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SizesEntry, D::Error> {
        deserializer.deserialize_any(TextOrTable {
            expected: "sizes: \"webstone\", or a table with `documents`, or with `lognormal-mu` and \
                       `lognormal-sigma`",
            text: |name| {
                let name: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
                Deserialize::deserialize(name).map(SizesEntry::Named).map_err(|e| e.to_string())
            },
            table: sizes,
        })
    }
}

fn sizes(table: SizesTable) -> Result<SizesEntry, String> {
    match table {
        SizesTable {
            documents: Some(documents),
            draw,
            lognormal_mu: None,
            lognormal_sigma: None,
        } => Ok(SizesEntry::Documents(DocumentsEntry { documents, draw })),
        SizesTable {
            documents: None,
            draw: None,
            lognormal_mu: Some(lognormal_mu),
            lognormal_sigma: Some(lognormal_sigma),
        } => Ok(SizesEntry::Lognormal(LognormalEntry { lognormal_mu, lognormal_sigma })),
        _ => {
            Err("sizes have `documents` (and `draw`), or `lognormal-mu` and `lognormal-sigma`"
                .into())
        }
    }
}
