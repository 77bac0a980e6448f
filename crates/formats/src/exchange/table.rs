//! The table that people know from other tools, as cells and as CSV.

use advise::{Approximation, NodeAnswer};

/// The heads of its columns. RespT and ResidT are in seconds, ArvR and Tput per second; Util is a share
/// from 0 to 1, for any number of servers.
pub const COLUMNS: [&str; 8] =
    ["Station", "Class", "QLen", "Util", "RespT", "ResidT", "ArvR", "Tput"];

/// The numbers of a row, in the order of the columns.
pub fn cells(row: &NodeAnswer) -> [Option<f64>; 6] {
    let NodeAnswer { jobs, utilisation, response, residence, arrival_rate, throughput, .. } = row;
    [*jobs, *utilisation, *response, *residence, Some(*arrival_rate), Some(*throughput)]
}

/// The table as CSV (RFC 4180), every digit kept; what is not known is empty. Two more columns tell of
/// each row whether it is of an approximate formula, and how far off it may be, as a share.
pub fn csv(rows: &[NodeAnswer], approximation: &Approximation) -> String {
    let error = approximation.error.map_or(String::new(), |error| error.to_string());
    let trust = format!("{},{error}\n", approximation.approximate);
    let mut text = COLUMNS.join(",") + ",Approximate,Error\n";
    for row in rows {
        let names = [&*row.station, row.class.as_deref().unwrap_or("")].map(quoted);
        let numbers = cells(row).map(|cell| cell.map_or(String::new(), |value| value.to_string()));
        text += &[&names[..], &numbers[..]].concat().join(",");
        text += &format!(",{trust}");
    }
    text
}

fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field.to_owned()
}
