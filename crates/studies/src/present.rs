//! Verdicts on a paper's claims, as text for a terminal, as a page and as JSON.

use std::fmt::Write;

use advise::Approximation;
use cli::text::{Table, paragraph};
use cli::{Failure, Verdict};
use report::{Cell, Column, Outcome, Report, Section, Table as PageTable};
use schemars::JsonSchema;
use serde::Serialize;

use super::claim::{Claim, Finding, Judged, Registry};
use crate::Reproduced;

/// The finding in one line: what reproduces, what does not, and whether that was known.
fn line(judged: &[Judged]) -> String {
    let count = |finding: Finding| judged.iter().filter(|one| one.finding == finding).count();
    let (numbers, shapes) = (count(Finding::Reproduces), count(Finding::ShapeOnly));
    let fails = count(Finding::DoesNotReproduce);
    let taken = count(Finding::Taken);
    let stated = judged.len() - count(Finding::NotStated) - taken;
    let mut line = format!(
        "reproduces {} of {stated} claims that could have failed ({numbers} numbers, {shapes} \
         shapes); {taken} more are taken from the paper",
        numbers + shapes
    );
    let news = judged.iter().filter(|one| one.verdict() == Verdict::Fails).count();
    if fails > 0 {
        let known = if news == 0 { ", for known reasons" } else { "" };
        let _ = write!(line, "; {fails} {}{known}", if fails == 1 { "does not" } else { "do not" });
    }
    for (finding, word) in [(Finding::Undecided, "undecided"), (Finding::NotRun, "not run")] {
        let n = count(finding);
        if n > 0 {
            let _ = write!(line, "; {n} {word}");
        }
    }
    if news > 0 {
        let _ = write!(line, "; NOT as expected: {news}");
    }
    let by_formula: Approximation = judged.iter().map(|one| one.approximation).collect();
    line + &by_formula.of_formula()
}

/// The whole text: verdict, a line a claim, and why.
pub fn text(registry: &Registry, judged: &[Judged], verdict: Verdict, seed: u64) -> String {
    let mut text = wrapped(&format!("{}: {}.", verdict.word(), line(judged)));
    let _ = writeln!(text, "\n{}", paragraph(&format!("{}. Seed {seed}.", registry.title)));
    let (taken, own): (Vec<&Judged>, Vec<&Judged>) =
        judged.iter().partition(|one| one.finding == Finding::Taken);
    let (live, model): (Vec<&Judged>, Vec<&Judged>) =
        own.into_iter().partition(|one| registry.claim(&one.id).live);
    let mut table = Table::new(&["claim", "paper", "formula", "simulated", "finding"]);
    for one in &model {
        let claim = registry.claim(&one.id);
        let values = [&claim.title, &claim.paper, &one.formula, &one.simulation].map(Clone::clone);
        table.row(values.into_iter().chain([word(one)]).collect());
    }
    // A paper of measurements alone has no table of a model.
    if !model.is_empty() {
        text += &table.to_string();
    }
    if !live.is_empty() {
        let head = ["claim, measured", "paper", "formula", "simul.", "measured", "finding"];
        let mut table = Table::new(&head);
        for one in live {
            let claim = registry.claim(&one.id);
            let values = [&claim.title, &claim.paper, &one.formula, &one.simulation, &one.measured];
            table.row(values.map(Clone::clone).into_iter().chain([word(one)]).collect());
        }
        let gap = if model.is_empty() { "" } else { "\n" };
        let _ = write!(text, "{gap}{table}");
    }
    if !taken.is_empty() {
        let mut table = Table::new(&["taken from the paper", "paper", "formula", "simulated"]);
        for one in taken {
            let claim = registry.claim(&one.id);
            let values = [&claim.title, &claim.paper, &one.formula, &one.simulation];
            table.row(values.map(Clone::clone).to_vec());
        }
        let _ = write!(text, "\n{table}");
    }
    let news = |one: &&Judged| one.verdict() == Verdict::Fails;
    text += &reasons(registry, "not as expected", judged.iter().filter(news));
    for finding in [
        Finding::DoesNotReproduce,
        Finding::Taken,
        Finding::NotStated,
        Finding::Undecided,
        Finding::NotRun,
    ] {
        let of_it = judged.iter().filter(|one| one.finding == finding && !news(one));
        text += &reasons(registry, finding.word(), of_it);
    }
    text
}

/// The verdict line stands at the margin; what does not fit goes on below it.
fn wrapped(text: &str) -> String {
    paragraph(text).replacen("  ", "", 1)
}

/// The finding; with a mark where it is not the expected one.
fn word(one: &Judged) -> String {
    let mark = if one.verdict() == Verdict::Fails { "!" } else { "" };
    format!("{}{mark}", one.finding.word())
}

fn reasons<'a>(
    registry: &Registry,
    heading: &str,
    judged: impl Iterator<Item = &'a Judged>,
) -> String {
    // Those with one reason stand together.
    let mut groups: Vec<(Vec<String>, String)> = Vec::new();
    for one in judged {
        let claim = registry.claim(&one.id);
        let (name, why) = (format!("{} ({})", claim.title, claim.place), why(claim, one));
        match groups.iter_mut().find(|(_, reason)| *reason == why) {
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], why)),
        }
    }
    let mut text = String::new();
    if !groups.is_empty() {
        let _ = writeln!(text, "\n{heading}:");
    }
    for (names, why) in groups {
        text += &paragraph(&format!("- {}: {why}", names.join(", ")));
    }
    text
}

/// Finding, then the reason that `studies/` gives for what was expected.
fn why(claim: &Claim, one: &Judged) -> String {
    let known = if one.is_expected() { claim.why.as_str() } else { "" };
    let expected = match one.verdict() {
        Verdict::Fails => format!("Expected: {}.", claim.expect.word()),
        _ => String::new(),
    };
    let parts = [one.found.as_str(), known, expected.as_str()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A study with everything that the text says.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Study")]
pub struct Answer<'a> {
    /// Name of the study.
    study: &'a str,
    /// True if the formula's numbers are approximate.
    approximate: bool,
    /// The largest relative error where the formula was tried.
    error: Option<f64>,
    /// The finding in one line.
    line: String,
    /// Seed of all that was drawn.
    seed: u64,
    /// The claims, each with its finding.
    claims: Vec<ClaimAnswer<'a>>,
}

/// A claim of a paper, as it was found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Claim")]
struct ClaimAnswer<'a> {
    /// Its number.
    id: &'a str,
    /// Section, figure, equation.
    place: &'a str,
    /// The claim in words.
    says: &'a str,
    /// The paper's value.
    paper: &'a str,
    /// Value by the formula.
    formula: &'a str,
    /// True if the formula is no exact one.
    approximate: bool,
    /// Largest relative error of the formula where it was tried.
    error: Option<f64>,
    /// Value by simulation.
    simulation: &'a str,
    /// Measured value.
    measured: &'a str,
    /// Finding.
    finding: Finding,
    /// Finding that is expected.
    expected: Finding,
    /// True if the finding is the expected one.
    as_expected: bool,
    /// Finding in words.
    found: &'a str,
    /// Explanation.
    why: &'a str,
    /// True if it counts among the claims that could have failed.
    counts: bool,
    /// Evidence that could have contradicted it.
    could_fail: &'a str,
    /// Values in place of those that were found that would have contradicted it.
    refuted_by: Option<&'a str>,
}

/// Everything that the text says, as fields.
pub fn answer<'a>(registry: &'a Registry, judged: &'a [Judged], seed: u64) -> Answer<'a> {
    let claim = |one: &'a Judged| {
        let claim = registry.claim(&one.id);
        ClaimAnswer {
            id: &one.id,
            place: &claim.place,
            says: &claim.says,
            paper: &claim.paper,
            formula: &one.formula,
            approximate: one.approximation.approximate,
            error: one.approximation.error,
            simulation: &one.simulation,
            measured: &one.measured,
            finding: one.finding,
            expected: claim.expect,
            as_expected: one.is_expected(),
            found: &one.found,
            why: &claim.why,
            counts: one.finding.counts(),
            could_fail: &claim.fails,
            refuted_by: one.refuted_by.as_deref(),
        }
    };
    let by_formula: Approximation = judged.iter().map(|one| one.approximation).collect();
    Answer {
        study: &registry.study,
        approximate: by_formula.approximate,
        error: by_formula.error,
        line: line(judged),
        seed,
        claims: judged.iter().map(claim).collect(),
    }
}

/// The report: the verdict, all claims in a table, then the figures.
///
/// # Errors
/// If a table is refused.
pub fn page(
    registry: &Registry,
    reproduced: &Reproduced,
    verdict: Verdict,
    seed: u64,
) -> Result<Report, Failure> {
    let judged = &reproduced.judged;
    let mut page = Report::new(format!("Reproduced: {}", registry.study))
        .verdict(verdict.into(), line(judged))
        .lead(registry.title.as_str())
        .fact("seed", seed.to_string(), "");
    for (key, value, unit) in &reproduced.facts {
        page = page.fact(key.as_str(), value.as_str(), unit.as_str());
    }
    let (mut claims, mut in_full) = (Section::new("Claims"), Section::new("Claims in full"));
    for (live, caption) in [
        (false, "The paper's value beside formula and simulation"),
        (true, "The paper's value beside formula, simulation and measurement"),
    ] {
        let rows: Vec<&Judged> =
            judged.iter().filter(|one| registry.claim(&one.id).live == live).collect();
        if !rows.is_empty() {
            claims = claims.table(values(registry, caption, &rows)?);
            in_full = in_full.table(words(registry, &rows)?);
        }
    }
    page = page.section(claims.paragraph(
        "\"shape only\": it holds, but the text prints no number. \"taken\": fitted, copied, or chosen \
         so that it holds, and so not counted. \"not stated\": the text says nothing to compare with, \
         and what was found agrees with what was found before.",
    ));
    for section in &reproduced.sections {
        page = page.section(section.clone());
    }
    Ok(page.section(in_full))
}

/// A row a claim, numbers only.
fn values(registry: &Registry, caption: &str, judged: &[&Judged]) -> Result<PageTable, Failure> {
    let heads =
        ["claim", "where", "paper", "formula", "simulated", "measured", "finding", "as expected"];
    let mut table = PageTable::new(caption, heads.map(Column::plain));
    for one in judged {
        let claim = registry.claim(&one.id);
        let words = [
            claim.title.as_str(),
            &claim.place,
            &claim.paper,
            &one.formula,
            &one.simulation,
            &one.measured,
            one.finding.word(),
        ];
        let cells =
            words.into_iter().map(Cell::from).chain([Cell::from(Outcome::from(one.verdict()))]);
        table = table.row(cells).map_err(Failure::defect)?;
    }
    Ok(table)
}

/// A row a claim: what the paper says, what was looked at and found, and why.
fn words(registry: &Registry, judged: &[&Judged]) -> Result<PageTable, Failure> {
    let heads = ["claim", "the paper says", "found", "could have failed"].map(Column::plain);
    let mut table = PageTable::new("What was looked at, and the reasons", heads);
    for one in judged {
        let claim = registry.claim(&one.id);
        let could = if one.finding.counts() { claim.fails.clone() } else { "not".into() };
        let cells = [claim.title.clone(), claim.says.clone(), why(claim, one), could];
        let cells = cells.map(Cell::from);
        table = table.row(cells).map_err(Failure::defect)?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::super::claim::{Answer, Evidence};
    use super::*;

    const LIST: &str = "format = 1\nstudy = \"s\"\ntitle = \"A paper\"\n\
        [[claim]]\nid = \"a\"\ntitle = \"first\"\nplace = \"1\"\nsays = \"one is one\"\npaper = \"1\"\n\
        expect = \"reproduces\"\nfails = \"another number\"\n\
        [[claim]]\nid = \"b\"\ntitle = \"second\"\nplace = \"2\"\nsays = \"two is one\"\npaper = \"1\"\n\
        expect = \"does-not-reproduce\"\nwhy = \"Two is two.\"\nlive = true\n\
        fails = \"the same\"\n";

    fn judged(second: bool) -> (Registry, Vec<Judged>) {
        let registry = Registry::parse(LIST);
        let one = Evidence::of(&[1.0], |found| found[0] == 1.0);
        let a = registry.claim("a").judge().formula("1").number(one);
        let b = registry.claim("b").judge().found("It is 2.").shape(Answer::from(second));
        (registry, vec![a, b])
    }

    #[test]
    fn the_verdict_stands_first_and_a_known_deviation_has_its_reason() {
        let (registry, judged) = judged(false);
        let text = text(&registry, &judged, super::super::claim::verdict(&judged), 7);
        let first =
            "holds: reproduces 1 of 2 claims that could have failed (1 numbers, 0 shapes); 0 more";
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.starts_with(first), "{text}");
        assert!(flat.contains("; 1 does not, for known reasons."), "{text}");
        assert!(text.contains("Seed 7.") && text.contains("- second (2): It is 2. Two is two."));
        assert!(!text.contains('!'));
    }

    #[test]
    fn news_is_marked_and_said_in_the_verdict_line() {
        let (registry, judged) = judged(true);
        let text = text(&registry, &judged, super::super::claim::verdict(&judged), 7);
        assert!(text.starts_with("fails: "), "{text}");
        assert!(text.contains("shape only!") && text.contains("Expected: does not."), "{text}");
        assert!(
            !text.contains("Two is two"),
            "the reason for a deviation that is not there: {text}"
        );
    }

    #[test]
    fn page_and_json_hold_every_claim() {
        let (registry, judged) = judged(false);
        let object = serde_json::to_value(answer(&registry, &judged, 7)).unwrap();
        assert_eq!(object["claims"][1]["finding"], "does-not-reproduce");
        assert_eq!(object["claims"][0]["could_fail"], "another number");
        assert!(object["claims"][0]["refuted_by"].is_string(), "{object}");
        let reproduced = Reproduced { judged, sections: Vec::new(), facts: Vec::new() };
        let page = page(&registry, &reproduced, Verdict::Holds, 7).unwrap();
        let html = report::render(&page);
        assert!(html.contains("two is one") && html.contains("Two is two."));
    }

    /// The verdict said nothing of formulas that are 35 % off.
    #[test]
    fn an_approximate_formula_is_told_in_the_verdict_line() {
        let (registry, judged) = judged(false);
        let quiet = text(&registry, &judged, Verdict::Holds, 7);
        assert!(!quiet.contains("approximate"), "{quiet}");
        let mut judged = judged.into_iter();
        let judged: Vec<Judged> = judged
            .next()
            .map(|one| one.approximate(Approximation::within(Some(0.35))))
            .into_iter()
            .chain(judged)
            .collect();
        let said = text(&registry, &judged, Verdict::Holds, 7);
        let first = said.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>();
        assert!(first.join(" ").contains("; its formula is approximate within 35 %"), "{said}");
        let object = serde_json::to_value(answer(&registry, &judged, 7)).unwrap();
        assert_eq!((&object["approximate"], &object["error"]), (&true.into(), &0.35.into()));
        assert_eq!(object["claims"][0]["approximate"], true);
        assert_eq!(object["claims"][1]["approximate"], false);
    }
}
