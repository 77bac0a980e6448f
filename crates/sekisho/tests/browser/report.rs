//! The report in a real browser: it opens from disk, every figure is drawn, nothing fails, it fits
//! a phone and it prints.
//!
//! `SEKISHO_SCREENSHOTS=<directory>` makes the tests keep the pictures and pages that they took.

use std::fs;

use report::{
    Axis, Cell, Column, Curves, Figure, FigureError, Kind, Outcome, Plot, Quantiles, Reference,
    Report, Residuals, Role, Section, Series, Stack, Strip, Table, TableError, render,
};

use super::{Page, Scratch, Theme, framed, keep, open, print, screenshot};

const DESKTOP: (u32, u32) = (1200, 900);
const PHONE_WIDTH: u32 = 390;

/// Figures in [`sample`].
const FIGURES: usize = 6;

/// A closed system of two stations, solved by exact MVA, so that the sample's curves have the true
/// shape: demand of 9 ms at a CPU, 4 ms at a disk, 60 ms of thinking. Returns throughput [1/s] and
/// response [ms] for 1 to `clients` clients.
fn two_stations(clients: u32) -> Vec<(f64, f64, f64)> {
    let (demands, think) = ([9.0, 4.0], 60.0);
    let mut queues = [0.0, 0.0];
    let mut found = Vec::new();
    for n in 1..=clients {
        let n = f64::from(n);
        let waits = [demands[0] * (1.0 + queues[0]), demands[1] * (1.0 + queues[1])];
        let response = waits[0] + waits[1];
        let rate = n / (think + response);
        queues = waits.map(|wait| rate * wait);
        found.push((n, rate * 1000.0, response));
    }
    found
}

/// Possible measurement of `value`: off by a few per cent, always the same.
fn noisy(n: f64, value: f64) -> f64 {
    value * (1.0 + 0.025 * (n * 7.3).sin())
}

fn throughput() -> Result<Figure, FigureError> {
    let solved = two_stations(40);
    let formula = solved.iter().map(|&(n, rate, _)| (n, rate));
    let simulated = solved.iter().step_by(3).map(|&(n, rate, _)| (n, rate * 0.985));
    let band = solved.iter().map(|&(n, rate, _)| (n, rate * 0.95, rate * 1.04));
    let measured = solved.iter().filter(|(n, ..)| [1.0, 4.0, 8.0, 12.0, 20.0, 28.0].contains(n));
    let measured = measured.map(|&(n, rate, _)| {
        let rate = noisy(n, rate);
        (n, rate, rate * 0.97, rate * 1.03)
    });
    let curves = Curves::new(Axis::linear("Load", "clients"), Axis::linear("Throughput", "1/s"))
        .series(Series::band("95 % of predictions", band).hue(0))
        .series(Series::line("formula (exact MVA)", formula).hue(0))
        .series(Series::dashed("simulation", simulated).hue(1))
        .series(Series::measured("measured", measured).hue(7))
        .reference(Reference::slope("asymptotic bound N / (D + Z)", 0.0, 1000.0 / 73.0))
        .reference(Reference::y("saturation 1 / Dmax", 1000.0 / 9.0))
        .reference(Reference::x("you are here", 12.0))
        .calibrated_to(28.0);
    let caption = "Throughput rises along the bound and bends at the knee near 8 clients. \
                   Dots: three runs of 20 s each with their 95 % intervals, seed `42`.";
    Figure::new("Throughput against load", caption, curves)
}

fn response() -> Result<Figure, FigureError> {
    let solved = two_stations(40);
    let mut curves = Curves::new(
        Axis::log("Load", "clients"),
        Axis::log("Response time, median and tail", "ms"),
    );
    for (hue, (name, factor)) in [("p50", 0.8), ("p95", 2.3), ("p99", 3.4)].into_iter().enumerate()
    {
        let hue = hue as u8;
        let line = solved.iter().map(|&(n, _, response)| (n, response * factor));
        let dots = solved.iter().filter(|(n, ..)| [1.0, 4.0, 8.0, 12.0, 20.0, 28.0].contains(n));
        let dots = dots.map(|&(n, _, response)| {
            let value = noisy(n + factor, response * factor);
            (n, value, value * 0.9, value * 1.12)
        });
        curves = curves
            .series(Series::line(format!("{name} predicted"), line).hue(hue))
            .series(Series::measured(format!("{name} measured"), dots).hue(hue));
    }
    let curves = curves
        .reference(Reference::y("objective: p99 below 500 ms", 500.0))
        .reference(Reference::y("objective: p50 below 450 ms", 450.0))
        .reference(Reference::x("you are here", 12.0))
        .reference(Reference::x("three times the load", 36.0))
        .calibrated_to(28.0);
    Figure::new("Response time against load", "Measured from the intended start.", curves)
}

fn quantiles() -> Result<Figure, FigureError> {
    let levels = [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999];
    let mut plot = Quantiles::new(Axis::log("Response time", "ms"))
        .reference(Reference::y("objective 250 ms", 250.0));
    for (clients, mean) in [(4, 14.0), (12, 47.0), (28, 192.0)] {
        let points = levels.map(|q: f64| (q, 2.0 + mean * (-(1.0 - q).ln()).powf(0.8)));
        plot = plot.series(Series::line(format!("{clients} clients"), points));
    }
    Figure::new("Response time by percentile", "One line for each load; no mean hides here.", plot)
}

fn strip() -> Result<Figure, FigureError> {
    let strip = Strip::new()
        .row("CPU 1 of the origin", Kind::Hard, 0.992, "queue 11.2 jobs, wait 98 ms")
        .row("worker pool, r = 4", Kind::Soft, 0.97, "queue 8.0 jobs, wait 71 ms")
        .row("disk", Kind::Hard, 0.44, "queue 0.8 jobs, wait 3 ms")
        .row("loopback network", Kind::Hard, 0.031, "no queue")
        .row("connection limit of the load balancer", Kind::Soft, 0.0, "never waited");
    Figure::new("Who saturates first", "Sorted by utilisation at 28 clients.", strip)
}

fn stack() -> Result<Figure, FigureError> {
    let stack = Stack::new("ms")
        .part("gate", Role::Wait)
        .part("CPU", Role::Wait)
        .part("CPU", Role::Service)
        .part("disk", Role::Wait)
        .part("disk", Role::Service)
        .row("median request", [12.0, 18.5, 9.0, 1.2, 4.0])
        .row("slowest 5 %", [71.0, 44.0, 17.0, 6.0, 8.0])
        .row("slowest 1 %", [188.0, 61.0, 42.0, 9.5, 11.0]);
    // Two parts of one name are two things in one legend; the model says so.
    let error =
        Figure::new("Where the time went", "", stack.clone()).expect_err("CPU occurs twice");
    assert!(error.to_string().contains("the name occurs twice"), "{error}");
    let mut stack = stack;
    for part in &mut stack.parts {
        part.name = match part.role {
            Role::Wait => format!("before the {}", part.name),
            Role::Service => format!("in the {}", part.name),
        };
    }
    let caption =
        "The slowest requests waited at the gate; their service was only four times longer.";
    Figure::new("Where the time went", caption, stack)
}

fn residuals() -> Result<Figure, FigureError> {
    let sizes = [500.0, 5e3, 5e4, 5e5, 5e6];
    let fitted = sizes.map(|size: f64| (size, 3.0 * size.log10().sin() - 0.4));
    let held = [(2e4, -6.2, -8.0, -4.1), (2e5, 4.4, 2.0, 7.0)];
    let plot = Residuals::new(Axis::log("Document size", "B"))
        .series(Series::dots("in the fit", fitted))
        .series(Series::measured("never seen by the fit", held))
        .tolerance(5.0);
    Figure::new("Residuals of the work demand", "Measured less fitted, of the measured.", plot)
}

fn checks() -> Result<Table, TableError> {
    let columns = [
        Column::plain("Expectation"),
        Column::new("Load", "clients"),
        Column::new("Predicted", "ms"),
        Column::new("Simulated", "ms"),
        Column::new("Measured", "ms"),
        Column::new("Error", "%"),
        Column::plain("Verdict"),
    ];
    let number = Cell::Number;
    let row = |name: &str, load, cells: [Cell; 4], outcome: Outcome| {
        [vec![name.into(), number(load)], cells.to_vec(), vec![outcome.into()]].concat()
    };
    let seen = Cell::interval;
    let holds = [number(48.1), number(47.6), seen(46.9, 45.2, 48.8), number(-2.5)];
    let fails = [number(310.4), number(305.0), seen(322.0, 301.5, 340.0), number(3.7)];
    let open = [number(238.2), Cell::Empty, seen(239.0, 221.0, 257.4), number(0.3)];
    let invalid = [number(2210.0), number(2190.5), seen(840.1, 610.0, 1400.9), Cell::Empty];
    Table::new("What was predicted, simulated and measured", columns).rows([
        row("p50 below 100 ms", 12.0, holds, Outcome::Holds),
        row("p99 below 250 ms", 20.0, fails, Outcome::Fails),
        row("p95 below 240 ms", 20.0, open, Outcome::Inconclusive),
        row("p99 below 900 ms", 60.0, invalid, Outcome::Invalid),
    ])
}

fn sample() -> Report {
    let figure = |figure: Result<Figure, FigureError>| figure.expect("the sample can be drawn");
    Report::new("Capacity of the demo origin behind a gate of 4 slots")
        .verdict(
            Outcome::Holds,
            "It holds 96/s (12 clients) at p99 below 250 ms; the CPU breaks first, at 111/s.",
        )
        .lead(
            "The origin was measured at six loads, a model was fitted to four of them and scored \
             on the other two. Formula, simulation and measurement agree within 4\u{a0}%.",
        )
        .fact("seed", "42", "")
        .fact("host", "build-7, 2 CPUs, Linux 6.1", "")
        .fact("commit", "`469b5cf`", "")
        .fact("date", "2026-11-20 11:39 UTC", "")
        .fact("measured for", "120", "s")
        .fact(
            "command",
            "`sekisho measure http http://127.0.0.1:8080/ --clients 1,4,8,12,20,28 --seed 42`",
            "",
        )
        .section(
            Section::new("The knee")
                .paragraph(
                    "Throughput follows the bound until the CPU is busy; from there each further \
                     client only waits. Beyond `28 clients` nothing was measured.",
                )
                .figure(figure(throughput()))
                .figure(figure(response())),
        )
        .section(Section::new("Tails").figure(figure(quantiles())))
        .section(
            Section::new("What breaks first")
                .figure(figure(strip()))
                .figure(figure(stack()))
                .command(
                    "Try six slots in the simulator before touching the server:",
                    "sekisho ask slots --scenario .sekisho/demo.toml --slots 4,6,8",
                ),
        )
        .section(
            Section::new("Was it right?")
                .paragraph("Two loads and one `r` that the fit never saw.")
                .table(checks().expect("the sample's table is sound"))
                .figure(figure(residuals())),
        )
}

fn assert_drawn(page: &Page, figures: usize) {
    assert_eq!(page.root_data("errors"), Some("0"), "{:?}", page.script_messages());
    assert_eq!(page.root_data("figures"), Some(figures.to_string().as_str()), "{}", page.log);
    assert!(page.script_messages().is_empty(), "{:?}", page.script_messages());
}

/// The number of shapes that have been drawn in each figure of the page.
fn shapes(dom: &str) -> Vec<usize> {
    let figures = dom.split("<figure ").skip(1);
    figures
        .map(|figure| {
            let (_, plot) = figure.split_once("class=\"plot\"").expect("every figure has a plot");
            let (plot, _) = plot.split_once("<figcaption").expect("every figure has a caption");
            assert!(plot.contains("<svg"), "a figure has no picture");
            assert!(!plot.contains("NaN"), "a coordinate is not a number");
            assert!(!plot.contains("undefined"), "an attribute is undefined");
            assert_ticks_are_named(plot);
            plot.matches(" d=\"M").count() + plot.matches("<rect").count()
        })
        .collect()
}

/// Both axes of a picture (bars have only the lower one) have ticks, and all have names.
fn assert_ticks_are_named(plot: &str) {
    let groups: Vec<&str> = plot.split("axis tick label\"").skip(1).collect();
    assert!(!groups.is_empty(), "a figure has no axis");
    let mut named = 0;
    for group in groups {
        let (group, _) = group.split_once("</g>").expect("a group ends");
        for tick in group.split("<text ").skip(1) {
            let (_, name) = tick.split_once('>').expect("a tag ends");
            assert!(!name.starts_with('<'), "a tick has no name");
            named += 1;
        }
    }
    assert!(named >= 4, "only {named} ticks have names");
}

#[test]
fn a_report_opens_from_disk_and_draws_every_figure() {
    let scratch = Scratch::new();
    let file = scratch.join("report.html");
    sample().write(&file).unwrap();
    let bytes = fs::metadata(&file).unwrap().len();
    assert!(bytes < 1_500_000, "{bytes} bytes");
    keep("report.html", &fs::read(&file).unwrap());
    let page = open(&file, DESKTOP);
    assert_drawn(&page, FIGURES);
    let shapes = shapes(&page.dom);
    assert_eq!(shapes.len(), FIGURES);
    for name in [">p99.9<", ">p99.999<", ">500k<", ">50 %<", ">calibrated up to here<"] {
        assert!(page.dom.contains(name), "{name} stands nowhere");
    }
    // The least of them, the quantiles, has three lines and an axis.
    assert!(shapes.iter().all(|count| *count >= 6), "{shapes:?}");
    assert_eq!(page.root_data("scroll-width"), page.root_data("client-width"));
    assert!(!page.dom.contains("<details open"), "a drawn figure's table is still open");
}

#[test]
fn without_its_library_a_report_shows_its_numbers_and_counts_the_error() {
    let scratch = Scratch::new();
    let file = scratch.join("report.html");
    let broken = render(&sample()).replace("t.plot=", "t.gone=").replace(".Plot=", ".Gone=");
    fs::write(&file, broken).unwrap();
    let page = open(&file, DESKTOP);
    assert_ne!(page.root_data("errors"), Some("0"), "an error was not counted");
    assert_eq!(page.dom.matches("<details open").count(), FIGURES, "the numbers are hidden");
}

/// Figures at the edge of what the model lets through: one point, constants, zeros, very large and
/// very small numbers, names that look like markup.
fn odd() -> Vec<Figure> {
    let hostile = "\"'</script><b>&amp;`";
    let curves = |x: Axis, y: Axis, points: &[(f64, f64)]| {
        Plot::from(Curves::new(x, y).series(Series::line(hostile, points.to_vec())))
    };
    let linear = || Axis::linear(hostile, hostile);
    let log = || Axis::log(hostile, hostile);
    let quantiles = Quantiles::new(log())
        .series(Series::line("one", [(0.0, 1.0)]))
        .series(Series::line("twelve nines", [(0.5, 1.0), (0.999_999_999_999, 9.0)]));
    let many = (0..9).fold(Curves::new(linear(), linear()), |curves, index| {
        let y = f64::from(index);
        curves
            .series(Series::dots(format!("dots {index}"), [(y, y)]))
            .series(Series::band(format!("band {index}"), [(0.0, y, y), (9.0, y, y + 1.0)]))
            .reference(Reference::y(format!("level {index}"), 5.0))
            .reference(Reference::x(format!("upright {index}"), 5.0))
            .reference(Reference::slope(format!("slope {index}"), -1e9, -y))
    });
    let beyond = Curves::new(log(), log())
        .series(Series::line("far", [(10.0, 1.0), (100.0, 2.0)]))
        .reference(Reference::slope("never positive", -5.0, -1.0))
        .calibrated_to(0.001);
    let plots: Vec<Plot> = vec![
        curves(linear(), linear(), &[(0.0, 0.0)]),
        curves(log(), log(), &[(1e-9, 1e12)]),
        curves(linear(), linear(), &[(-5.0, -1e-7), (-4.0, -2e-7)]),
        curves(log(), linear(), &[(1e-12, 1e15), (1e12, 3e15)]),
        quantiles.into(),
        many.into(),
        beyond.into(),
        Residuals::new(linear()).series(Series::dots(hostile, [(0.0, 0.0)])).into(),
        Strip::new().row(hostile, Kind::Soft, 0.0, hostile).into(),
        Stack::new(hostile).part(hostile, Role::Wait).row(hostile, [0.0]).into(),
    ];
    plots
        .into_iter()
        .map(|plot| Figure::new(hostile, hostile, plot).expect("odd, but sound"))
        .collect()
}

#[test]
fn odd_figures_are_drawn_too() {
    let figures = odd();
    let count = figures.len();
    let section = figures.into_iter().fold(Section::new("Odd"), Section::figure);
    let html = render(&Report::new("Odd figures").section(section));
    let scratch = Scratch::new();
    let file = scratch.join("phone.html");
    fs::write(&file, framed(&html, PHONE_WIDTH, 900)).unwrap();
    let narrow = open(&file, (800, 900));
    assert_drawn(&narrow, count);
    assert_eq!(narrow.root_data("scroll-width"), narrow.root_data("client-width"));
    let file = scratch.join("report.html");
    fs::write(&file, html).unwrap();
    let wide = open(&file, DESKTOP);
    assert_drawn(&wide, count);
    assert_eq!(shapes(&wide.dom).len(), count);
    keep("odd.png", &screenshot(&file, (1200, 6000), Theme::Light));
}

#[test]
fn a_report_fits_a_phone() {
    let scratch = Scratch::new();
    let file = scratch.join("phone.html");
    fs::write(&file, framed(&render(&sample()), PHONE_WIDTH, 6200)).unwrap();
    let page = open(&file, (800, 900));
    assert_drawn(&page, FIGURES);
    let width = PHONE_WIDTH.to_string();
    assert_eq!(page.root_data("client-width"), Some(width.as_str()));
    assert_eq!(page.root_data("scroll-width"), Some(width.as_str()), "the page is too wide");
    let picture = screenshot(&file, (PHONE_WIDTH.max(500), 6200), Theme::Light);
    keep("phone.png", &picture);
}

/// The first bytes of every PNG file.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

#[test]
fn a_report_can_be_seen_in_light_and_dark() {
    let scratch = Scratch::new();
    let file = scratch.join("report.html");
    sample().write(&file).unwrap();
    let light = screenshot(&file, (1200, 4900), Theme::Light);
    let dark = screenshot(&file, (1200, 4900), Theme::Dark);
    keep("light.png", &light);
    keep("dark.png", &dark);
    assert!(light.starts_with(PNG) && dark.starts_with(PNG));
    assert_ne!(light, dark, "dark mode changes nothing");
}

#[test]
fn a_report_prints() {
    let scratch = Scratch::new();
    let file = scratch.join("report.html");
    sample().write(&file).unwrap();
    let paper = print(&file);
    keep("report.pdf", &paper);
    assert!(paper.starts_with(b"%PDF-"));
    // Six figures and two fonts; hatches once were fills and made it eight million bytes.
    assert!((50_000..3_000_000).contains(&paper.len()), "{} bytes", paper.len());
}
