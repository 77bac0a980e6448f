//! `sekisho ask bottleneck`: who saturates first, and who next.

use std::io::Write;

use advise::Approximation;
use advise::questions::{self, Bottleneck, Growth, Saturation};
use clap::Args as ClapArgs;
use cli::text::{Table, label, rate_estimate};
use cli::{Failure, Verdict, waiting};

use super::answer::{Common, Text, hardness, load_text, share, strip};

/// Ask who saturates first as the load grows, and who next
///
/// Soft gates (pools, workers, slots) and hard ones (processors, disks) are put in order by simulation;
/// each time the first is relieved, and the rest are asked again.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho ask bottleneck studies/ohmae/software-bottleneck.toml")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// The class whose load grows; left out, all
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let (scenario, options) = args.common.read()?;
    let bar = waiting("simulating");
    let answer = questions::bottleneck(&scenario, args.class.as_deref(), &options);
    bar.finish_and_clear();
    let answer = answer.map_err(args.common.failed())?;
    let mut why = vec![format!(
        "Saturated is {} of the slots or servers busy on average. The order is of simulations (seed {}), \
         since for how long a slot is held depends on who waits inside; `by law` is the load at which \
         each would be full if nobody waited anywhere (utilisation law).",
        share(answer.threshold),
        options.seed
    )];
    for saturation in &answer.order {
        let [below, above] = saturation.interval;
        let growth = |factor| Growth { factor, class: args.class.clone() };
        let text = |factor| {
            let growth = growth(factor);
            Some(load_text(&growth, &growth.loads(&scenario).ok()?))
        };
        if let (Some(below), Some(above)) = (text(below), text(above)) {
            let names = names(saturation);
            why.push(format!("{names}: surely not yet at {below}, surely at {above} (95 %)."));
        }
    }
    if answer.order.len() > 1 {
        why.push("Each one after the first is with those before it relieved.".into());
    }
    let now = Growth { factor: 1.0, class: args.class.clone() };
    let now = load_text(&now, &now.loads(&scenario).map_err(args.common.failed())?);
    let mut numbers = table(&answer, &scenario);
    match &answer.now {
        Some(busy) => numbers += &format!("\n  busy under its own load, {now}\n{}", strip(busy)),
        None => why.push(format!("Under its own load, {now}, jobs pile up without end.")),
    }
    let command = match answer.order.first().and_then(|first| first.parts.first()) {
        Some(part) if questions::can_vary_servers(&scenario, Some(&part.name)) => {
            let class = args.class.as_deref();
            let options = [("of", Some(&*part.name)), ("load", Some("2x")), ("class", class)];
            args.common.command("ask servers", &options)
        }
        Some(_) => args.common.command("ask sensitivity", &[]),
        None => args.common.command("sim", &[]),
    };
    let text = Text {
        headline: headline(&answer),
        approximation: Approximation::NONE,
        numbers,
        why,
        next: command,
    };
    args.common.say(out, Verdict::Holds, &answer, &text)
}

/// `gate `tasks``, or several.
pub(super) fn names(saturation: &Saturation) -> String {
    let shown: Vec<String> =
        saturation.parts.iter().map(|part| format!("`{}`", part.name)).collect();
    match shown.len() {
        0..=3 => shown.join(" and "),
        all => format!("{} and {} more", shown[0], all - 1),
    }
}

fn at(saturation: &Saturation, class: Option<&String>) -> String {
    let class = class.cloned();
    load_text(&Growth { factor: saturation.factor, class }, &saturation.loads)
}

pub(super) fn headline(answer: &Bottleneck) -> String {
    let at = |saturation| at(saturation, answer.class.as_ref());
    match answer.order.as_slice() {
        [] => "nothing saturates: no gate and no station limits this load".into(),
        [only] => format!("{} saturates first, at {}; nothing after it", names(only), at(only)),
        [first, second, ..] => format!(
            "{} saturates first, at {}; relieved, {} is next, at {}",
            names(first),
            at(first),
            names(second),
            at(second)
        ),
    }
}

fn table(answer: &Bottleneck, scenario: &advise::Scenario) -> String {
    let mut table = Table::new(&["saturates", "kind", "has", "by law", "simulated", "throughput"]);
    for saturation in &answer.order {
        let mut simulated = at(saturation, answer.class.as_ref());
        let mut throughput = saturation.throughput.as_ref().map_or("-".into(), rate_estimate);
        for part in &saturation.parts {
            let law = part.law.and_then(|factor| {
                let growth = Growth { factor, class: answer.class.clone() };
                Some(load_text(&growth, &growth.loads(scenario).ok()?))
            });
            table.row(vec![
                label(&part.name),
                hardness(part.hardness).into(),
                part.capacity.to_string(),
                law.unwrap_or("-".into()),
                std::mem::replace(&mut simulated, "together".into()),
                std::mem::take(&mut throughput),
            ]);
        }
    }
    table.to_string()
}
