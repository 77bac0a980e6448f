//! Experiment 3: one document size at a time, so that each size's work demand is known. Comes first,
//! because the other experiments are predicted from it.

use cli::Failure;
use cli::text::{percent, time};
use measure::Ratio;
use report::{Axis, Curves, Section, Series};
use workload::DocumentSet;

use crate::drawn;

use super::super::super::claim::{Answer, Judged, Registry};
use super::Part;
use super::press::{Ask, Lab, Seen, undisturbed};

/// Names and sizes \[byte\]: those of the file list, and a tiny one.
const SIZES: [(&str, u64); 6] = [
    ("100b", 100),
    ("500b", 500),
    ("5k", 5_000),
    ("50k", 50_000),
    ("500k", 500_000),
    ("5m", 5_000_000),
];
const CLIENTS: [u32; 3] = [4, 16, 64];
/// Above this the largest document would take minutes.
const CLIENTS_LARGEST: u32 = 16;
const HELPERS: u32 = 16;
/// CPU time of a byte in the helper \[s\], and of a request: only to choose the lengths of runs.
const ABOUT: (f64, f64) = (15e-9, 100e-6);

/// The work demand of a document, about \[s\].
pub(super) fn about(bytes: f64) -> f64 {
    ABOUT.0 * bytes + ABOUT.1
}

/// Demand of each size on this machine's Apache.
pub(super) struct Demands(Vec<(u64, f64)>);

impl Demands {
    /// Of a document of so many bytes: its response time over the number of clients, at 16 of them
    /// \[s\].
    ///
    /// # Panics
    /// If that size was not measured.
    pub(super) fn of(&self, bytes: f64) -> f64 {
        let found = self.0.iter().find(|(size, _)| (*size as f64 - bytes).abs() < 0.5);
        found.unwrap_or_else(|| panic!("{bytes} B was not measured")).1
    }
}

struct Point {
    clients: u32,
    seen: Seen,
}

pub(super) fn measure(registry: &Registry, lab: &Lab) -> Result<(Demands, Part), Failure> {
    let all = SIZES.map(|(name, bytes)| workload::Document { name: name.into(), bytes, weight: 1 });
    let all = DocumentSet::new(all.to_vec()).map_err(Failure::defect)?;
    let server = lab.start(HELPERS, &all)?;
    let mut points: Vec<Vec<Point>> = Vec::new();
    for (name, bytes) in SIZES {
        let mut of_size = Vec::new();
        for clients in CLIENTS {
            let round = f64::from(clients) * about(bytes as f64);
            if bytes == SIZES[5].1 && clients > CLIENTS_LARGEST {
                continue;
            }
            let documents = DocumentSet::single(name, bytes);
            let length_s = (lab.seconds / 2.0).max(6.0 * round);
            let ask =
                Ask { clients, documents, length_s, warmup_s: 0.2 + 1.2 * round, deck_s: None };
            let seen = lab.press(&server, ask)?;
            of_size.push(Point { clients, seen });
        }
        points.push(of_size);
    }
    let demand = |at: usize| points[at][1].seen.response.mean / f64::from(points[at][1].clients);
    let demands =
        Demands(SIZES.iter().enumerate().map(|(at, size)| (size.1, demand(at))).collect());
    let runs = || points.iter().flatten().map(|point| &point.seen);
    let judged = [flat(registry, &points), whatever_clients(registry, &points)];
    let judged = judged.map(|one| undisturbed(one, runs())).to_vec();
    Ok((demands, Part { judged, section: section(&points)? }))
}

/// Flat where small, proportional where large.
fn flat(registry: &Registry, points: &[Vec<Point>]) -> Judged {
    let ratio = |from: usize, to: usize| {
        Ratio::of(points[from][1].seen.response, points[to][1].seen.response)
    };
    let (small, large) = (ratio(0, 1), ratio(4, 5));
    registry
        .claim("live-sizes")
        .judge()
        .measured(format!("x{:.2}, x{:.1}", small.ratio, large.ratio))
        .found(format!(
            "Growth of R at 16 clients from 100 B to 500 B (5 times the size; less than twice is \
             flat), and from 500 KB to 5 MB (10 times; at least 7 is proportional). R / 16 there: {}, \
             {}.",
            time(points[0][1].seen.response.mean / 16.0),
            time(points[5][1].seen.response.mean / 16.0)
        ))
        .shape(Answer::below(2.0, small.low, small.high).and(Answer::above(7.0, large.low, large.high)))
}

/// R / c is the demand, whatever c; and it is the CPU time.
fn whatever_clients(registry: &Registry, points: &[Vec<Point>]) -> Judged {
    let claim = registry.claim("live-demand");
    let (mut answer, mut worst, mut off_cpu) = (Answer::Yes, 0.0_f64, 0.0_f64);
    for of_size in points {
        let base = &of_size[1];
        for point in of_size {
            // R / c against R / c at 16 clients.
            let ratio = Ratio::of(base.seen.response, point.seen.response);
            let scale = f64::from(base.clients) / f64::from(point.clients);
            let off = ratio.ratio * scale - 1.0;
            worst = if off.abs() > worst.abs() { off } else { worst };
            answer = answer.and(super::near(ratio, scale.recip(), claim.within()));
        }
        let off =
            base.seen.cpu_per_request / (base.seen.response.mean / f64::from(base.clients)) - 1.0;
        off_cpu = if off.abs() > off_cpu.abs() { off } else { off_cpu };
    }
    claim
        .judge()
        .formula("R/c = g")
        .measured(format!("{} most", percent(worst)))
        .found(format!(
            "R / c at {CLIENTS:?} clients against 16, each of {} sizes (5 MB only up to \
             {CLIENTS_LARGEST} clients). The helpers' own CPU time per request at 4 clients differs \
             from R / c by at most {}.",
            SIZES.len(),
            percent(off_cpu)
        ))
        .shape(answer)
}

fn section(points: &[Vec<Point>]) -> Result<Section, Failure> {
    let axes = || (Axis::log("Document size", "byte"), Axis::log("Mean response time", "ms"));
    let (x, y) = axes();
    let mut curves = Curves::new(x, y);
    let line = SIZES.iter().zip(points);
    let cpu: Vec<(f64, f64)> =
        line.map(|(size, of)| (size.1 as f64, of[0].seen.cpu_per_request)).collect();
    for (hue, clients) in (0_u8..).zip(CLIENTS) {
        let of = points.iter().zip(SIZES).filter_map(|(of_size, size)| {
            let point = of_size.iter().find(|point| point.clients == clients)?;
            let response = point.seen.response;
            let low = response.low().max(response.mean / 100.0);
            Some((size.1 as f64, response.mean * 1e3, low * 1e3, response.high() * 1e3))
        });
        let dots: Vec<_> = of.filter(|dot| dot.3.is_finite()).collect();
        let formula = cpu.iter().map(|(bytes, g)| (*bytes, g * f64::from(clients) * 1e3));
        curves = curves
            .series(Series::line(format!("c g(x), {clients} clients"), formula).hue(hue))
            .series(Series::measured(format!("measured, {clients} clients"), dots).hue(hue));
    }
    let title = "Figures 4, 7 and 8 on this machine: response time by document size";
    let figure = drawn::figure(title, curves, |drawn| {
        // A line and its dots stand together.
        let pairs = drawn.rows().chunks(2);
        let ratios = pairs.flat_map(|pair| pair[1].over(&pair[0]));
        format!(
            "Lines: number of clients times the CPU time per request that the helpers used at {} clients. \
             Measured are {} their lines.",
            CLIENTS[0],
            drawn::times(ratios)
        )
    });
    Ok(Section::new("Measured: experiment 3, one size at a time")
        .paragraph(format!(
            "Apache prefork, {HELPERS} helpers on one processor, compression as the work."
        ))
        .figure(figure?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caption_tells_how_far_from_their_lines_the_runs_are() {
        let points = SIZES.map(|(_, bytes)| {
            let clients =
                CLIENTS.into_iter().filter(|c| bytes < 5_000_000 || *c <= CLIENTS_LARGEST);
            let seen = |clients| {
                Seen::made_up(&[0.01 * f64::from(clients) * if clients == 64 { 1.2 } else { 0.9 }])
            };
            clients.map(|clients| Point { clients, seen: seen(clients) }).collect::<Vec<_>>()
        });
        let told = format!("{:?}", section(&points).unwrap());
        assert!(
            told.contains("at 4 clients. Measured are 0.90 to 1.20 times their lines."),
            "{told}"
        );
    }
}
