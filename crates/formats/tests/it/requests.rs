//! What a load is made of, from files: requests in TOML and as vegeta has them, and access logs.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use formats::request_file::read_requests;
use formats::sources::{OTHERS, Replay, read_replay};

/// A folder of a test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("requests-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder of our own");
        Folder(path)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a folder of our own");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn requests_are_read_from_toml() {
    let folder = Folder::new();
    folder.write("order.json", "{\"id\": 1}");
    let path = folder.write(
        "mix.toml",
        "[[request]]\npath = \"/cheap\"\nweight = 9\nsize = \"5kB\"\n\n[[request]]\nname = \"order\"\n\
         method = \"POST\"\nurl = \"http://h/orders\"\nheaders = { X-A = \"1\" }\n\
         body-file = \"order.json\"\n\n[[request]]\nmethod = \"PUT\"\npath = \"/x\"\nbody = \"y\"\n",
    );
    let requests = read_requests(&path).unwrap();
    let cheap = &requests[0];
    assert_eq!((cheap.method.as_str(), cheap.place.as_str()), ("GET", "/cheap"));
    assert_eq!((cheap.weight, cheap.bytes, cheap.line), (9, Some(5000), 1));
    let order = &requests[1];
    assert_eq!((order.name.as_deref(), order.place.as_str()), (Some("order"), "http://h/orders"));
    assert_eq!(order.headers, [("X-A".to_owned(), "1".to_owned())]);
    assert_eq!(order.body, b"{\"id\": 1}");
    assert_eq!(requests[2].body, b"y");
}

#[test]
fn what_is_wrong_in_a_file_of_requests_has_its_place_and_way_out() {
    let folder = Folder::new();
    for (text, wanted) in [
        ("[[request]]\npth = \"/x\"\n", "mix.toml:2:1: unknown key `pth`; did you mean `path`?"),
        ("[[request]]\nweight = 2\n", "mix.toml:1: it has no `path`"),
        ("[[request]]\npath = \"/\"\nurl = \"/\"\n", "both `path` and `url`"),
        (
            "[[request]]\npath = \"/\"\nbody = \"x\"\nbody-file = \"x\"\n",
            "both `body` and `body-file`",
        ),
        ("[[request]]\npath = \"/\"\nbody-file = \"none\"\n", "cannot read the body"),
        ("[[request]]\npath = \"/\"\nsize = \"5\"\n", "mix.toml:3:"),
        ("[[request]]\npath = \"/\"\nweight = -1\n", "a whole number"),
        ("request = []\n", "there is no request in it"),
        ("", "the key `request` is missing"),
        ("GET http://h/\nnonsense\n", "mix.toml:2: it is no target"),
        ("GET http://h/ HTTP/1.1\n", "something follows the URL"),
        ("GET http://h/\n@none\n", "mix.toml:2: cannot read the body"),
    ] {
        let error = read_requests(&folder.write("mix.toml", text)).unwrap_err().to_string();
        assert!(error.contains(wanted), "{text:?}: {error}");
    }
    let absent = read_requests(&folder.0.join("absent")).unwrap_err().to_string();
    assert!(absent.contains("cannot read the requests") && absent.contains("absent"), "{absent}");
}

#[test]
fn targets_are_read_as_vegeta_writes_them() {
    let folder = Folder::new();
    folder.write("body", "b=1");
    let path = folder.write(
        "targets",
        "# a comment\nGET http://h:80/a?b=c\nX-A: 1:2\n\nPOST http://h:80/form\n\
         Content-Type: application/x-www-form-urlencoded\n@body\nDELETE /x\n",
    );
    let requests = read_requests(&path).unwrap();
    let told: Vec<_> =
        requests.iter().map(|one| (one.method.as_str(), one.place.as_str(), one.line)).collect();
    assert_eq!(
        told,
        [("GET", "http://h:80/a?b=c", 2), ("POST", "http://h:80/form", 5), ("DELETE", "/x", 8)]
    );
    assert_eq!(requests[0].headers, [("X-A".to_owned(), "1:2".to_owned())]);
    assert_eq!(requests[1].body, b"b=1");
}

fn replay(text: &str, methods: &[&str]) -> Result<Replay, String> {
    let folder = Folder::new();
    read_replay(&folder.write("access.log", text), methods).map_err(|error| error.to_string())
}

/// A line of a Common log.
fn line(second: u32, request: &str) -> String {
    format!("10.0.0.1 - - [10/Oct/2026:13:55:{second:02} +0000] \"{request}\" 200 5\n")
}

#[test]
fn a_log_is_replayed_in_the_order_of_its_moments() {
    let mut log = line(30, "GET /b/17 HTTP/1.1");
    log += &line(29, "GET /a?x=1 HTTP/1.1");
    log += &line(30, "HEAD / HTTP/1.0");
    log += &line(33, "POST /orders HTTP/1.1");
    log += &line(33, "GET /b/18 HTTP/1.1");
    log += &line(33, "\\x16\\x03\\x01");
    log += &line(33, "OPTIONS * HTTP/1.1");
    log += &line(33, "GET http://elsewhere/ HTTP/1.1");
    // Combined, and a duration: what is behind the request does not matter.
    log += &line(34, "GET /b/17 HTTP/1.1").replace(" 5\n", " 5 \"-\" \"curl \\\"x\\\"\" 0.012\n");
    let found = replay(&log, &["GET", "HEAD"]).unwrap();
    let rows: Vec<(f64, &str)> = found
        .rows
        .iter()
        .map(|(at, request)| (*at, found.requests[*request as usize].path.as_str()))
        .collect();
    // Two requests of one second are half a second apart.
    assert_eq!(rows, [(0.0, "/a?x=1"), (1.0, "/b/17"), (1.5, "/"), (4.0, "/b/18"), (5.0, "/b/17")]);
    assert!(found.spread);
    assert_eq!(found.classes, ["/b/*", "/a", "HEAD /"]);
    let classes: Vec<u32> = found.requests.iter().map(|request| request.class).collect();
    assert_eq!(classes, [0, 1, 2, 0]);
    assert_eq!(found.left_out, [("POST".to_owned(), 1)]);
    assert_eq!((found.unusable, found.cut_off), (3, None));
    let with_posts = replay(&log, &["GET", "HEAD", "POST"]).unwrap();
    assert_eq!((with_posts.rows.len(), with_posts.left_out.len()), (6, 0));
}

#[test]
fn json_lines_of_common_servers_are_replayed() {
    for log in [
        // nginx with a format of its own, Caddy, Traefik-like, milliseconds.
        "{\"time_iso8601\":\"2026-10-10T13:55:36+00:00\",\"request\":\"GET /a HTTP/1.1\"}\n\
         {\"time_iso8601\":\"2026-10-10T13:55:36.250+00:00\",\"request\":\"HEAD /b HTTP/1.1\"}\n",
        "{\"ts\":1791640536.0,\"request\":{\"method\":\"GET\",\"uri\":\"/a\"}}\n\
         {\"ts\":1791640536.25,\"request\":{\"method\":\"HEAD\",\"uri\":\"/b\"}}\n",
        "{\"timestamp\":1791640536000,\"method\":\"GET\",\"path\":\"/a\"}\n\
         {\"timestamp\":1791640536250,\"method\":\"HEAD\",\"path\":\"/b\"}\n",
        // Traefik, whose `time` is that of the line and whose `StartUTC` is that of the request; nanoseconds.
        "{\"time\":\"2026-10-10T13:55:39Z\",\"StartUTC\":\"2026-10-10T13:55:36.000000000Z\",\
         \"RequestMethod\":\"GET\",\"RequestPath\":\"/a\"}\n\
         {\"time\":\"2026-10-10T13:55:36Z\",\"StartUTC\":\"2026-10-10T13:55:36.250000000Z\",\
         \"RequestMethod\":\"HEAD\",\"RequestPath\":\"/b\"}\n",
        "{\"time\":1791640536000000000,\"method\":\"GET\",\"path\":\"/a\"}\n\
         {\"time\":1791640536250000000,\"method\":\"HEAD\",\"path\":\"/b\"}\n",
    ] {
        let found = replay(log, &["GET", "HEAD"]).unwrap();
        let at: Vec<f64> = found.rows.iter().map(|(at, _)| *at).collect();
        assert!(at[0] == 0.0 && (at[1] - 0.25).abs() < 1e-6, "{log}: {at:?}");
        assert_eq!(found.classes, ["/a", "HEAD /b"], "{log}");
        assert!(!found.spread);
    }
}

/// The story: a Common log whose seconds had a fraction was refused, although it tells the gaps that a replay wants.
#[test]
fn fractions_of_seconds_in_brackets_are_taken() {
    for (first, second) in [
        // Apache with %{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t; nginx with $time_iso8601 and with $msec.
        ("10/Oct/2026:13:55:36.000 +0000", "10/Oct/2026:13:55:36.250 +0000"),
        ("10/Oct/2026:13:55:36 +0000", "10/Oct/2026:15:55:36.250000 +0200"),
        ("2026-10-10T13:55:36+00:00", "2026-10-10T13:55:36.250+00:00"),
        ("1791640536.000", "1791640536.250"),
    ] {
        let line = |stamp: &str| format!("::1 - - [{stamp}] \"GET / HTTP/1.1\" 200 5\n");
        let found = replay(&(line(first) + &line(second)), &["GET"]).unwrap();
        assert!((found.rows[1].0 - 0.25).abs() < 1e-6, "{second}: {:?}", found.rows);
        assert!(!found.spread, "{second}");
    }
}

#[test]
fn many_kinds_are_counted_together() {
    let log: String = (0..60)
        .flat_map(|second| {
            let path = format!("GET /k{} HTTP/1.1", "x".repeat(second % 30 + 1));
            vec![line(second as u32, &path); if second % 30 == 3 { 3 } else { 1 }]
        })
        .collect();
    let found = replay(&log, &["GET"]).unwrap();
    assert_eq!(found.requests.len(), 30);
    assert_eq!((found.classes.len(), found.classes[20].as_str()), (21, OTHERS));
    assert_eq!(found.classes[0], "/kxxxx", "the most frequent kind is the first");
    assert_eq!(found.requests.iter().filter(|request| request.class == 20).count(), 10);
}

#[test]
fn a_log_that_cannot_be_replayed_is_refused_with_its_place() {
    let good = line(1, "GET / HTTP/1.1");
    for (log, wanted) in [
        (format!("{good}nonsense\n"), "access.log:2: `nonsense` has no time in brackets"),
        (good.replace("Oct", "Okt"), "access.log:1: `10/Okt"),
        ("x [10/Oct/2026:13:55:36 +0000] y\n".into(), "no request in quotes"),
        ("{\"time\":1}\n".into(), "access.log:1: it has no `request`"),
        ("{\"request\":\"GET / HTTP/1.1\"}\n".into(), "access.log:1: it has no time; known names"),
        ("{\"time\":".into(), "this JSON is broken"),
        (line(1, "POST / HTTP/1.1"), "no line has the method GET"),
        (String::new(), "nothing to replay"),
        (format!("{good}{}", "x".repeat(100_000)), "longer than 64 KiB"),
    ] {
        let error = replay(&log, &["GET"]).unwrap_err();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}
