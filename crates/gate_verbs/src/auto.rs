//! Slots that are left to the gate, alike in front of HTTP servers and PostgreSQL: the flags, what is
//! told, and what has been found.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use gate::Conduct;
use live::model::Fitted;
use live::{Auto, Controlled, Estimate};

use cli::Failure;
use cli::text::{Table, label, sentence};

/// A number of slots, if it is not left to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slots {
    Auto,
    Number(u32),
}

impl std::str::FromStr for Slots {
    type Err = String;

    fn from_str(text: &str) -> Result<Slots, String> {
        match text {
            "auto" => Ok(Slots::Auto),
            number => number
                .parse()
                .map(Slots::Number)
                .map_err(|_| "slots are a whole number such as 8, or `auto`".to_owned()),
        }
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slots::Auto => out.write_str("auto"),
            Slots::Number(slots) => write!(out, "{slots}"),
        }
    }
}

/// Those that are said as numbers.
pub(super) fn numbers(slots: &[Slots]) -> Vec<u32> {
    let number = |slots: &Slots| match slots {
        Slots::Auto => None,
        Slots::Number(number) => Some(*number),
    };
    slots.iter().filter_map(number).collect()
}

#[derive(ClapArgs)]
pub(super) struct AutoArgs {
    /// The fewest slots with `--slots auto`
    #[arg(long, value_name = "N", default_value_t = 1)]
    slots_least: u32,
    /// The most slots with `--slots auto`; each is a connection to the server
    #[arg(long, value_name = "N", default_value_t = 100)]
    slots_most: u32,
    /// With `--slots auto`: only tell what would be done; the slots stay the most
    #[arg(long)]
    shadow: bool,
    /// Write what the model has found at the end as a scenario for `sekisho ask`; of a second pool to
    /// FILE.2, and so on. No file if it has found no knee
    #[arg(long, value_name = "FILE")]
    pub(super) model: Option<PathBuf>,
}

impl AutoArgs {
    /// Search for the slots, if these are left to the gate.
    pub(super) fn auto(&self, slots: &[Slots]) -> Result<Option<Auto>, Failure> {
        let wrong = |cause: &str| Err(Failure::Usage(cause.to_owned()));
        if !slots.contains(&Slots::Auto) {
            let limits = (self.slots_least, self.slots_most) != (1, 100);
            return match limits || self.shadow {
                true => wrong(
                    "`--slots-least`, `--slots-most` and `--shadow` go with `--slots auto` only",
                ),
                false => Ok(None),
            };
        }
        if slots.len() > 1 {
            return wrong("`--slots auto` is for all servers: it stands alone");
        }
        let conduct = if self.shadow { Conduct::Shadows } else { Conduct::Acts };
        let (floor, ceiling) = (self.slots_least, self.slots_most);
        if floor == 0 || floor > ceiling {
            return wrong("`--slots-least` is at least 1, and at most `--slots-most`");
        }
        Ok(Some(Auto { floor, ceiling, conduct, ..Auto::default() }))
    }
}

/// Tells on standard error what was decided about the slots.
pub(super) fn tell(line: &str) {
    // Whoever reads standard error may have gone; the gate goes on.
    let _ = write!(std::io::stderr(), "{}", sentence(&format!("gate: {line}")));
}

/// Writes what was found of a gate as a scenario; what is behind it has this name.
pub(super) fn keep_model(
    path: &Path,
    (name, station): (&str, &str),
    fitted: &Fitted,
) -> Result<(), Failure> {
    std::fs::write(path, scenario(name, station, fitted)).map_err(|error| {
        Failure::Usage(format!("`--model {}` cannot be written: {error}", path.display()))
    })
}

/// Findings as a scenario.
fn scenario(name: &str, station: &str, fitted: &Fitted) -> String {
    let Fitted { clients, think, slots, delay, demand, servers } = fitted;
    let name = toml::Value::from(format!("{name}, as the gate saw it"));
    format!(
        "# A closed network of its clients, its slots and what is behind them, fitted while it ran.\n\
         sekisho = 1\nname = {name}\nseed = 1\n\n\
         [[class]]\nname = \"clients\"\npopulation = {clients}\nthink = \"{think:.9}s\"\n\
         route = [\"slots\"]\n\n\
         [[gate]]\nname = \"slots\"\nslots = {slots}\ninside = [\"elsewhere\", \"{station}\"]\n\n\
         [[station]]\nname = \"elsewhere\"\nkind = \"delay\"\ndemand = \"{delay:.9}s\"\n\n\
         [[station]]\nname = \"{station}\"\nkind = \"queue\"\nservers = {servers}\n\
         demand = {{ mean = \"{demand:.9}s\", dist = \"exponential\" }}\n"
    )
}

/// The fewest slots that keep 95 % of the throughput, if a knee was seen and the model fits.
pub(super) fn best_slots(fitted: Option<&Fitted>, model: &[Estimate]) -> Option<f64> {
    fitted?;
    model.iter().find(|row| row.what == "slots for 95 %").map(|row| row.value)
}

/// True if the gate only says what it would do.
pub(super) fn is_shadow(control: &Controlled) -> bool {
    control.conduct == Conduct::Shadows
}

/// Findings of the models of several gates, and the slots that stand.
pub(super) fn models<'m>(models: impl Iterator<Item = &'m [Estimate]> + Clone) -> String {
    let mut table = Table::new(&["model", "", "95 %", "unit"]);
    for row in models.clone().flatten() {
        let interval = row
            .interval
            .map_or("-".to_owned(), |(low, high)| format!("{} .. {}", number(low), number(high)));
        let what = if row.of.contains(' ') {
            format!("{} {}", row.of.split_once(' ').map_or("", |(_, part)| part), row.what)
        } else {
            row.what.clone()
        };
        table.row(vec![what, number(row.value), interval, row.unit.clone()]);
    }
    let mut text = String::new();
    if models.clone().any(|model| !model.is_empty()) {
        text += &table.to_string();
    }
    for row in models.filter_map(<[Estimate]>::first) {
        text += &sentence(&format!("  {}: {}", label(&row.of), row.basis));
    }
    text
}

/// Four digits of a number that may be large or small.
fn number(value: f64) -> String {
    let digits = 3 - value.abs().max(1e-9).log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 9) as usize)
}
