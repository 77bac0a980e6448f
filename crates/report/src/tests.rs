//! Promises of a report: nothing handed in becomes markup, nothing infinite is drawn, no figure
//! without its numbers, and the libraries are the published ones.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::html::{LIBRARIES, render_with};
use super::*;

const HOSTILE: &str = "a\"b'c</script><script>alert(1)</script><!--&amp;\u{0}";

fn hostile_report() -> Report {
    let curves = Curves::new(Axis::linear(HOSTILE, HOSTILE), Axis::log(HOSTILE, HOSTILE))
        .series(Series::measured(HOSTILE, [(1.0, 2.0, 1.5, 2.5)]))
        .reference(Reference::y(HOSTILE, 3.0));
    let strip = Strip::new().row(HOSTILE, Kind::Soft, 0.5, HOSTILE);
    let stack = Stack::new(HOSTILE).part(HOSTILE, Role::Wait).row(HOSTILE, [1.0]);
    let figure = |plot: Plot| Figure::new(HOSTILE, HOSTILE, plot).unwrap();
    let table = Table::new(HOSTILE, [Column::new(HOSTILE, HOSTILE)]);
    Report::new(HOSTILE)
        .verdict(Outcome::Fails, HOSTILE)
        .lead(HOSTILE)
        .fact(HOSTILE, HOSTILE, HOSTILE)
        .section(
            Section::new(HOSTILE)
                .paragraph(format!("`{HOSTILE}` and {HOSTILE}"))
                .figure(figure(curves.into()))
                .figure(figure(strip.into()))
                .figure(figure(stack.into()))
                .table(table.row([Cell::from(HOSTILE)]).unwrap())
                .command(HOSTILE, HOSTILE),
        )
}

/// The page without the scripts and the style that are ours or the libraries'.
fn without_own_scripts(html: &str) -> String {
    let mut rest = html.to_owned();
    for script in LIBRARIES.iter().map(|library| library.script) {
        assert!(rest.contains(script), "a library is not in the page unchanged");
        rest = rest.replace(script, "");
    }
    for own in [include_str!("page.js"), include_str!("watch.js"), include_str!("page.css")] {
        assert!(rest.contains(own), "a part of the page is not in it unchanged");
        rest = rest.replace(own, "");
    }
    rest
}

#[test]
fn nothing_that_is_handed_in_becomes_markup() {
    let html = without_own_scripts(&render(&hostile_report()));
    assert!(!html.contains("<script>alert"), "a script was injected");
    assert!(!html.contains("<!--"), "a comment was opened");
    assert!(!html.contains('\u{0}'), "a control character reached the page");
    assert!(html.contains(
        "a&quot;b&#39;c&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;!--&amp;amp;"
    ));
    // watch.js, the data, two libraries, page.js: as many ends as beginnings, and no more.
    assert_eq!(html.matches("<script").count(), 5);
    assert_eq!(html.matches("</script").count(), 5);
}

#[test]
fn the_embedded_data_are_the_figures() {
    let report = hostile_report();
    let html = render(&report);
    let start = "<script type=\"application/json\" id=\"data\">";
    let (_, rest) = html.split_once(start).unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    let embedded: Vec<Figure> = serde_json::from_str(json).unwrap();
    assert!(embedded.iter().eq(report.figures()));
    assert_eq!(embedded.len(), 3);
}

#[test]
fn a_vendored_script_cannot_end_its_element() {
    let own = [include_str!("page.js"), include_str!("watch.js")];
    for script in LIBRARIES.iter().map(|library| library.script).chain(own) {
        let script = script.to_lowercase();
        assert!(!script.contains("</script"));
        assert!(!script.contains("<!--"));
    }
}

#[test]
fn a_part_between_backticks_is_code() {
    let report = Report::new("t").lead("run `sekisho fit <x>` now; a lone ` stays");
    let html = render(&report);
    assert!(html.contains("run <code>sekisho fit &lt;x&gt;</code> now; a lone ` stays"));
}

fn curves(series: Series) -> Curves {
    Curves::new(Axis::linear("Load", "1/s"), Axis::log("Response", "ms")).series(series)
}

#[test]
fn what_cannot_be_drawn_is_refused_by_name() {
    let line = |y: f64| curves(Series::line("p99", [(1.0, 1.0), (2.0, y)]));
    let good = || line(2.0);
    let cases: Vec<(Plot, &str, Fault)> = vec![
        (line(f64::INFINITY).into(), "p99", Fault::NotFinite),
        (line(0.0).into(), "p99", Fault::NotPositive(0.0)),
        (curves(Series::dashed("p99", [(f64::NEG_INFINITY, 1.0)])).into(), "p99", Fault::NotFinite),
        (curves(Series::band("b", [(1.0, 2.0, f64::NAN)])).into(), "b", Fault::NotFinite),
        (
            curves(Series::band("b", [(1.0, 2.0, 1.0)])).into(),
            "b",
            Fault::Reversed { lower: 2.0, upper: 1.0 },
        ),
        (curves(Series::measured("m", [(1.0, 2.0, 1.0, f64::NAN)])).into(), "m", Fault::NotFinite),
        (curves(Series::dots("m", [])).into(), "m", Fault::Empty),
        (good().series(Series::dots("p99", [(1.0, 1.0)])).into(), "p99", Fault::Duplicate),
        (good().reference(Reference::y("SLO", f64::NAN)).into(), "SLO", Fault::NotFinite),
        (
            good().reference(Reference::slope("bound", 0.0, f64::NAN)).into(),
            "bound",
            Fault::NotFinite,
        ),
        (good().calibrated_to(f64::INFINITY).into(), "calibrated range", Fault::NotFinite),
        (Strip::new().into(), "", Fault::Empty),
        (Strip::new().row("CPU", Kind::Hard, 97.0, "").into(), "CPU", Fault::NotShare(97.0)),
        (Strip::new().row("CPU", Kind::Hard, f64::NAN, "").into(), "CPU", Fault::NotFinite),
        (
            Stack::new("ms").part("w", Role::Wait).row("all", [1.0, 2.0]).into(),
            "all",
            Fault::Width { values: 2, parts: 1 },
        ),
        (
            Stack::new("ms").part("w", Role::Wait).row("all", [-1.0]).into(),
            "all",
            Fault::Negative(-1.0),
        ),
        (
            Stack::new("ms")
                .part("w", Role::Wait)
                .part("s", Role::Service)
                .row("all", [f64::MAX, f64::MAX])
                .into(),
            "all",
            Fault::NotFinite,
        ),
        (
            Quantiles::new(Axis::linear("Response", "ms"))
                .series(Series::line("run", [(1.0, 3.0)]))
                .into(),
            "run",
            Fault::NotQuantile(1.0),
        ),
        (
            Residuals::new(Axis::linear("Load", ""))
                .series(Series::dots("fit", [(1.0, f64::NAN)]))
                .into(),
            "fit",
            Fault::NotFinite,
        ),
    ];
    for (plot, series, fault) in cases {
        assert_refused(plot, series, fault);
    }
    Figure::new("Knee", "", good()).unwrap();
}

fn assert_refused(plot: Plot, series: &str, fault: Fault) {
    let shown = format!("{plot:?}");
    let error = Figure::new("Knee", "", plot).expect_err(&shown);
    assert_eq!(error.series, series, "{shown}");
    // NaN is never equal to itself, and no fault holds one.
    assert_eq!(error.fault, fault, "{shown}");
    assert!(error.to_string().contains("\"Knee\""), "{error}");
    assert!(error.to_string().contains(series), "{error}");
}

#[test]
fn a_table_refuses_what_does_not_belong() {
    let table = || Table::new("Runs", [Column::plain("run"), Column::new("X", "1/s")]);
    let error = |row: [Cell; 2]| table().row(row).unwrap_err().to_string();
    assert!(table().row([Cell::from("a")]).unwrap_err().to_string().contains("1 cells under 2"));
    assert!(
        error([Cell::from("a"), Cell::from(f64::NAN)]).contains("\"Runs\", row 1, column \"X\"")
    );
    assert!(error([Cell::from("a"), Cell::interval(1.0, 2.0, f64::INFINITY)]).contains("finite"));
    assert!(error([Cell::from("a"), Cell::interval(1.0, 2.0, 0.0)]).contains("before it begins"));
    let file = r#"{"caption":"c","columns":[],"rows":[[{"number":1.0}]]}"#;
    assert!(serde_json::from_str::<Table>(file).is_err(), "a file got past the check");
}

#[test]
fn figures_survive_json_and_files_are_checked_too() {
    let curves = Curves::new(Axis::log("Load", "1/s"), Axis::linear("Throughput", "1/s"))
        .series(Series::line("formula", [(1.0, 0.953957), (2.0, 1.5)]).hue(3))
        .series(Series::dashed("simulated", [(1.0, 0.95)]))
        .series(Series::measured("measured", [(1.0, 0.96, 0.94, 0.98)]))
        .series(Series::band("interval", [(1.0, 0.9, 1.0)]))
        .reference(Reference::slope("bound", 0.0, 1.0))
        .reference(Reference::x("you are here", 2.0))
        .calibrated_to(4.0);
    let quantiles = Quantiles::new(Axis::log("Response", "ms"))
        .series(Series::line("run 1", [(0.5, 12.5), (0.999, 80.25)]));
    let residuals = Residuals::new(Axis::linear("Load", "1/s"))
        .series(Series::dots("fit", [(1.0, -2.5)]))
        .tolerance(5.0);
    let strip = Strip::new().row("CPU 0", Kind::Hard, 0.97, "queue 3.1");
    let stack = Stack::new("ms").part("gate", Role::Wait).row("median", [4.5]);
    let plots: [Plot; 5] =
        [curves.into(), quantiles.into(), residuals.into(), strip.into(), stack.into()];
    for plot in plots {
        let figure = Figure::new("Title", "Caption", plot).unwrap();
        let json = serde_json::to_string(&figure).unwrap();
        assert_eq!(serde_json::from_str::<Figure>(&json).unwrap(), figure);
    }
    let file = r#"{"title":"t","caption":"","plot":{"kind":"strip","rows":
        [{"name":"CPU","kind":"hard","utilisation":1.5,"note":""}]}}"#;
    let error = serde_json::from_str::<Figure>(file).unwrap_err().to_string();
    assert!(error.contains("1.5 is not a utilisation"), "{error}");
}

#[test]
fn every_figure_has_its_numbers_and_its_words() {
    let html = render(&hostile_report());
    let figures: Vec<&str> = html.split("<figure ").skip(1).collect();
    assert_eq!(figures.len(), 3);
    for figure in figures {
        let (figure, _) = figure.split_once("</figure>").unwrap();
        assert!(figure.contains("role=\"img\" aria-label=\""));
        assert!(figure.contains("<figcaption>"));
        // Open until the script has drawn: without JavaScript the numbers are seen.
        let (_, numbers) = figure.split_once("<details open>").unwrap();
        assert!(numbers.contains("<tbody>\n<tr>"));
    }
}

#[test]
fn a_figures_table_holds_every_number() {
    let curves = Curves::new(Axis::linear("Load", "1/s"), Axis::linear("Response", "ms"))
        .series(Series::line("formula", [(1.0, 10.25), (2.0, 20.5)]))
        .series(Series::measured("measured", [(2.0, 21.5, 20.75, 22.25), (2.0, 19.5, 18.0, 21.0)]))
        .reference(Reference::y("SLO", 50.0))
        .calibrated_to(1.5);
    let figure = Figure::new("Knee", "", curves).unwrap();
    let table = alternative::table(&figure);
    let rows = [
        vec![Cell::Number(1.0), Cell::Number(10.25), Cell::Empty],
        vec![Cell::Number(2.0), Cell::Number(20.5), Cell::interval(21.5, 20.75, 22.25)],
        vec![Cell::Number(2.0), Cell::Empty, Cell::interval(19.5, 18.0, 21.0)],
    ];
    assert_eq!(table.lines(), rows);
    let notes = ["SLO: 50 ms.", "The model is calibrated up to 1.5 1/s."];
    assert_eq!(alternative::notes(&figure), notes);
    let sentence = alternative::sentence(&figure);
    assert!(sentence.contains("formula (line): 10.25 at 1, 20.5 at 2."), "{sentence}");
    let html = render(&Report::new("t").section(Section::new("s").figure(figure)));
    assert!(html.contains("21.50 <span class=\"interval\">[20.75, 22.25]</span>"));
}

#[test]
fn percentiles_keep_all_their_nines() {
    let quantiles = Quantiles::new(Axis::linear("Response", "ms"))
        .series(Series::line("run", [(0.0, 1.0), (0.5, 2.0), (0.999, 3.0), (0.999_999_999, 4.0)]));
    let table = alternative::table(&Figure::new("Quantiles", "", quantiles).unwrap());
    let names: Vec<&Cell> = table.lines().iter().map(|line| &line[0]).collect();
    assert_eq!(
        names,
        ["p0", "p50", "p99.9", "p99.9999999"].map(Cell::from).iter().collect::<Vec<_>>()
    );
}

#[test]
fn a_verdict_has_a_word_and_a_sign() {
    let all = [
        Outcome::Holds,
        Outcome::Fails,
        Outcome::Inconclusive,
        Outcome::Invalid,
        Outcome::Measured,
    ];
    for outcome in all {
        let table = Table::new("t", [Column::plain("verdict")]).row([Cell::from(outcome)]).unwrap();
        let html = render(
            &Report::new("t").verdict(outcome, "so").section(Section::new("s").table(table)),
        );
        let shown = format!(
            "<span class=\"outcome {word}\"><span class=\"sign\" aria-hidden=\"true\">{}</span> \
             {word}</span>",
            outcome.sign(),
            word = outcome.word()
        );
        assert_eq!(html.matches(&shown).count(), 2, "{outcome:?}");
    }
}

#[test]
fn the_page_may_load_nothing() {
    let html = render(&hostile_report());
    assert!(html.contains("content=\"default-src 'none'; script-src 'unsafe-inline'"));
    let own = without_own_scripts(&html);
    for loading in [" src=", "<link", "@import", "<base", "<iframe"] {
        assert!(!own.contains(loading), "{loading}");
    }
    let style = include_str!("page.css");
    assert!(!style.contains("url(") && !style.contains("@import"));
}

#[test]
fn a_report_that_cannot_be_written_says_where() {
    let path = std::env::temp_dir().join("sekisho-no-such-directory").join("report.html");
    let error = Report::new("t").write(&path).unwrap_err();
    assert!(error.to_string().contains("sekisho-no-such-directory"), "{error}");
}

/// SHA-256 of `bytes` in hexadecimal, by the tool that every Linux has.
fn sha256(bytes: &[u8]) -> String {
    let mut tool = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha256sum is needed; it is part of coreutils");
    tool.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn the_libraries_are_the_published_ones() {
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sha256(b"abc"), known, "sha256sum does not compute SHA-256");
    let [d3, plot] = &LIBRARIES;
    let files = [
        ("d3-7.9.0/LICENSE", d3.licence),
        ("d3-7.9.0/d3.min.js", d3.script),
        ("plot-0.6.17/LICENSE", plot.licence),
        ("plot-0.6.17/plot.umd.min.js", plot.script),
    ];
    let sums: String =
        files.iter().map(|(path, text)| format!("{}  {path}\n", sha256(text.as_bytes()))).collect();
    assert_eq!(sums, include_str!("../assets/SHA256SUMS"));
}

#[test]
fn sliders_stand_in_the_page_once_or_one_sentence_says_why_not() {
    let sliders = || Sliders { model: "{\"name\": \"</script>\"}".into(), seed: u64::MAX };
    let section = Section::new("What if").sliders(sliders()).sliders(sliders());
    let report = Report::new("sliders").section(section);
    let with = render_with(&report, Ok("TU9EVUxF"));
    assert_eq!(with.matches("<section id=\"sliders\"").count(), 1);
    assert!(with.contains("<script type=\"text/plain\" id=\"module\">TU9EVUxF</script>"));
    assert!(with.contains("id=\"model\" data-seed=\"18446744073709551615\">{\"name\": \"\\u003c/"));
    // What a reader without scripts sees.
    assert!(with.contains("Without, <code>sekisho ask</code> answers the same."));
    let without = render_with(&report, Err("This report has no sliders: `x`.".into()));
    assert!(without.contains("<p class=\"note\">This report has no sliders: <code>x</code>.</p>"));
    for absent in ["id=\"module\"", "id=\"model\"", "id=\"sliders\""] {
        assert!(!without.contains(absent), "{absent}");
    }
}
