//! The paper's figures 7 to 10, drawn again.

use cli::Failure;
use report::{Axis, Curves, Figure, Section, Series};

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
            "Below zero the scheduler loses: only with 8 to 15 servers, only where the straight line \
             stands for the hit ratio.",
            cluster::SLOW,
            Curve::Chord,
        )?)
        .figure(figure_9(
            "The same with the hit ratio in theory",
            "The scheduler never loses.",
            cluster::SLOW,
            Curve::Theory,
        )?)
        .figure(figure_9(
            "Figure 10: gain by cached share, T_ag = 4500, straight line",
            "The scheduler never loses.",
            cluster::FAST,
            Curve::Chord,
        )?)
        .figure(bounds()?);
    Ok(vec![section])
}

fn figure(title: &str, caption: &str, curves: Curves) -> Result<Figure, Failure> {
    Figure::new(title, caption, curves).map_err(Failure::defect)
}

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
            .series(Series::dots("with the scheduler, simulated", simulated(&hits.with)))
            .series(Series::dots("without, simulated", simulated(&hits.without)));
    figure("Figure 7: hit ratio", "With the scheduler it is the cached share itself.", curves)
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
    figure(
        "Figure 8: throughput by servers, 1.5 million agents",
        "Without the scheduler the database is the limit from 3 servers on.",
        curves,
    )
}

fn figure_9(title: &str, caption: &str, t_ag: f64, curve: Curve) -> Result<Figure, Failure> {
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
    figure(title, caption, curves)
}

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
            .series(Series::dashed("case 2: wins below", loses_2))
            .series(Series::dashed("case 3: wins above", loses_3));
    figure(
        "The regions of figure 9: T_ag = 1500, straight line",
        "The scheduler loses between the dashed lines, where M_A runs through them.",
        curves,
    )
}
