//! The paper's figures 7 to 10, drawn again.

use cli::Failure;
use measure::figures::digits;
use report::{Axis, Curves, Figure, Section, Series};

use crate::drawn::{self, Drawn, Row};

use super::cluster::{self, Curve};
use super::hits;

/// The sections of the report that show them.
pub(super) fn sections(hits: &hits::Runs) -> Result<Vec<Section>, Failure> {
    let section = Section::new("The agent server: sections 5 to 7 of the paper")
        .paragraph(
            "Each agent is asked for once a scan. The scheduler first serves the agents in the cache; \
             without it they come in a fresh random order.",
        )
        .figure(figure_7(hits)?)
        .figure(figure_8()?)
        .figure(figure_9(
            "Figure 9: gain by cached share, T_ag = 1500, straight line",
            cluster::SLOW,
            Curve::Chord,
        )?)
        .figure(figure_9(
            "The same with the hit ratio in theory",
            cluster::SLOW,
            Curve::Theory,
        )?)
        .figure(figure_9(
            "Figure 10: gain by cached share, T_ag = 4500, straight line",
            cluster::FAST,
            Curve::Chord,
        )?)
        .figure(bounds()?);
    Ok(vec![section])
}

/// Names of the two ways, simulated.
const WITH: &str = "with the scheduler, simulated";
const WITHOUT: &str = "without, simulated";

fn figure_7(hits: &hits::Runs) -> Result<Figure, Failure> {
    let mut theory = Vec::new();
    let mut chord = Vec::new();
    for cached in cluster::shares() {
        theory.push((cached, Curve::Theory.at(cached).map_err(Failure::defect)?));
        if cached >= 0.9 {
            chord.push((cached, Curve::Chord.at(cached).map_err(Failure::defect)?));
        }
    }
    let simulated = |ratios: &[f64]| -> Vec<(f64, f64)> {
        hits::SHARES.iter().copied().zip(ratios.iter().copied()).collect()
    };
    let curves =
        Curves::new(Axis::linear("Cached share of agents", ""), Axis::linear("Hit ratio", ""))
            .series(Series::line("LRU in random order, theory", theory))
            .series(Series::dashed("straight line that the paper's values imply", chord))
            .series(Series::dots(WITH, simulated(&hits.with)))
            .series(Series::dots(WITHOUT, simulated(&hits.without)));
    drawn::figure("Figure 7: hit ratio", curves, |drawn| {
        let from_share = |name: &str| {
            let off = drawn.row(name).points.iter().map(|[cached, hits]| hits - cached);
            let (least, most) =
                off.fold((0.0_f64, 0.0_f64), |(a, b), one| (a.min(one), b.max(one)));
            format!("{least:+.3} to {most:+.3}")
        };
        format!(
            "Simulated, off the cached share itself: with the scheduler by {}, without by {}.",
            from_share(WITH),
            from_share(WITHOUT)
        )
    })
}

fn figure_8() -> Result<Figure, Failure> {
    let (mut with, mut theory, mut chord) = (Vec::new(), Vec::new(), Vec::new());
    for servers in 1..=10 {
        let x = f64::from(servers);
        let answer = cluster::figure_8(servers, Curve::Theory)?;
        with.push((x, answer.throughput_with));
        theory.push((x, answer.throughput_without));
        chord.push((x, cluster::figure_8(servers, Curve::Chord)?.throughput_without));
    }
    let curves = Curves::new(Axis::linear("Agent servers", ""), Axis::linear("Agents", "/s"))
        .series(Series::line("with the scheduler", with))
        .series(Series::line("without, theory", theory))
        .series(Series::dashed("without, straight line", chord));
    drawn::figure("Figure 8: throughput by servers, 1.5 million agents", curves, |drawn| {
        let [with, without @ ..] = drawn.rows() else { return "Nothing is drawn.".into() };
        let gains = without.iter().filter_map(|row| {
            let gain = |point: &[f64; 2]| Some((point[0], point[1] / row.at(point[0])?));
            let most = with.points.iter().filter_map(gain).max_by(|a, b| a.1.total_cmp(&b.1))?;
            Some(format!("{:.2} times {} with {} servers", most.1, row.name, most.0))
        });
        format!(
            "The most that the scheduler brings: {}. With it, from the fewest servers to the most, {} \
             agents/s.",
            gains.collect::<Vec<_>>().join("; "),
            drawn::from_to(with)
        )
    })
}

fn figure_9(title: &str, t_ag: f64, curve: Curve) -> Result<Figure, Failure> {
    let mut curves = Curves::new(
        Axis::linear("Cached share of agents", ""),
        Axis::linear("Gain by the scheduler", "%"),
    );
    for servers in [4, 8, 10, 12, 15, 20] {
        let mut line = Vec::new();
        for cached in cluster::shares().filter(|cached| *cached >= 0.8) {
            let gain = cluster::gain(&cluster::at(servers, cached, t_ag, curve)?);
            line.push((cached, gain * 100.0));
        }
        curves = curves.series(Series::line(format!("{servers} servers"), line));
    }
    drawn::figure(title, curves, losses)
}

/// Who loses by the scheduler, and the least gain of all.
fn losses(drawn: &Drawn) -> String {
    // A gain that is zero but for rounding is no loss.
    let loses = |row: &&Row| row.lowest().is_some_and(|[_, gain]| gain < -1e-7);
    let losing: Vec<&str> =
        drawn.rows().iter().filter(loses).map(|row| row.name.as_str()).collect();
    let least = drawn.rows().iter().filter_map(|row| Some((row, row.lowest()?)));
    let least = least.min_by(|one, other| one.1[1].total_cmp(&other.1[1]));
    let least = least.map_or(String::new(), |(row, [cached, gain])| {
        format!(" The least gain is {gain:+.1} %, with {} at {cached:.3} cached.", row.name)
    });
    let losing = match losing.is_empty() {
        true => "none of these".to_owned(),
        false => losing.join(", "),
    };
    format!("Below zero, where the scheduler loses: {losing}.{least}")
}

/// Names of the ends of what is lost.
const WINS_BELOW: &str = "case 2: wins below";
const WINS_ABOVE: &str = "case 3: wins above";

/// Figure of where the cases begin and end, and between which servers the scheduler loses.
fn bounds() -> Result<Figure, Failure> {
    let (mut scan, mut loses_2, mut loses_3) = (Vec::new(), Vec::new(), Vec::new());
    let high = || cluster::shares().filter(|cached| *cached >= 0.9);
    for cached in high() {
        // The bounds do not depend on M; eight servers stand for all.
        let answer = cluster::at(8, cached, cluster::SLOW, Curve::Chord)?;
        let shown =
            |servers: f64| (servers <= 2.0 * f64::from(cluster::SERVERS_MAX)).then_some(servers);
        scan.extend(shown(answer.servers_scan).map(|m| (cached, m)));
        loses_2.extend(shown(answer.wins_up_to).map(|m| (cached, m)));
        loses_3.extend(shown(answer.wins_from).map(|m| (cached, m)));
    }
    let fixed = cluster::at(8, 0.95, cluster::SLOW, Curve::Chord)?;
    let level = |m: f64| high().map(move |cached| (cached, m));
    let curves =
        Curves::new(Axis::linear("Cached share of agents", ""), Axis::linear("Servers", ""))
            .series(Series::line("M_A: case 2 | case 3", scan))
            .series(Series::line("M_B: case 1 | case 2", level(fixed.servers_fetched)))
            .series(Series::line("M_C: case 3 | case 4", level(fixed.servers_cached)))
            .series(Series::dashed(WINS_BELOW, loses_2))
            .series(Series::dashed(WINS_ABOVE, loses_3));
    drawn::figure("The regions of figure 9: T_ag = 1500, straight line", curves, |drawn| {
        let [below, above] = [WINS_BELOW, WINS_ABOVE].map(|name| drawn.row(name));
        let gaps = below.points.iter().filter_map(|[cached, from]| {
            Some((*cached, *from, above.at(*cached)?)).filter(|(_, from, to)| from < to)
        });
        let gaps: Vec<(f64, f64, f64)> = gaps.collect();
        let widest = gaps.iter().copied().max_by(|a, b| (a.2 - a.1).total_cmp(&(b.2 - b.1)));
        match (gaps.first(), gaps.last(), widest) {
            (Some(first), Some(last), Some((cached, from, to))) => format!(
                "Between the dashed lines the scheduler loses: from {:.3} to {:.3} cached, at most between \
                 {} and {} servers, at {cached:.3}.",
                first.0,
                last.0,
                digits(from),
                digits(to)
            ),
            _ => "The scheduler loses nowhere: the dashed lines leave nothing between them.".into(),
        }
    })
}
