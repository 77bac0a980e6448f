//! Equal stations and servers, written once with their `count`: a scenario that was read has each of
//! them, with a name of its own.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::{ServerEntry, StationEntry};

/// The most equal parts of one entry: a gate has no more servers.
const COUNT_MAX: u32 = 65_536;

/// The name of one of several, from 1.
fn named(name: &str, nth: u32) -> String {
    format!("{name}-{nth}")
}

fn check<E: Error>(what: &str, count: u32) -> Result<u32, E> {
    match count {
        1..=COUNT_MAX => Ok(count),
        _ => Err(E::custom(format!("`count` of {what} is {count}; it is from 1 to {COUNT_MAX}"))),
    }
}

pub(super) fn stations<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<StationEntry>, D::Error> {
    let mut stations = Vec::new();
    for mut entry in Vec::<StationEntry>::deserialize(from)? {
        let Some(count) = entry.count.take() else {
            stations.push(entry);
            continue;
        };
        let count = check(&format!("station `{}`", entry.name), count)?;
        stations.extend(
            (1..=count).map(|nth| StationEntry { name: named(&entry.name, nth), ..entry.clone() }),
        );
    }
    Ok(stations)
}

pub(super) fn servers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ServerEntry>, D::Error> {
    let mut servers = Vec::new();
    for mut entry in Vec::<ServerEntry>::deserialize(from)? {
        let Some(count) = entry.count.take() else {
            servers.push(entry);
            continue;
        };
        let count = check("a gate's servers", count)?;
        servers.extend((1..=count).map(|nth| ServerEntry {
            station: entry.station.as_ref().map(|name| named(name, nth)),
            ..entry.clone()
        }));
    }
    Ok(servers)
}
