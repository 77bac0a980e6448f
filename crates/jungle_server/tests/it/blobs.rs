//! Bytes of any length beside nodes: they come and go in parts, are there as long as a version names them, and are
//! told when they are damaged.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jungle::{Durability, Thinning};
use jungle_server::{ServerSettings, backed_up, verify};
use serde_json::json;

use crate::client::{Answer, Folder, Site, agent, settings};

/// Settings of a server that looks often for blobs that nobody names, and keeps two versions.
fn forgetful() -> ServerSettings {
    let mut settings = settings();
    settings.store.sweep = Duration::from_millis(10);
    settings.store.thinning = Thinning { newest: 2, all_for: 0, minutes_for: 0, versions: 2 };
    settings.blob_max = 3 << 20;
    settings
}

/// Bytes that are no text, in more than one part.
fn large(seed: u8) -> Vec<u8> {
    (0..1_000_003_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed).collect()
}

fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let is_one = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().starts_with(prefix);
    files.filter(is_one).collect()
}

/// Waits until so many files of blobs are there.
#[track_caller]
fn stored(folder: &Path, count: usize) {
    let begun = Instant::now();
    while files(folder, "blob-").len() != count {
        let found = files(folder, "blob-");
        assert!(begun.elapsed() < Duration::from_secs(60), "{count} are wanted: {found:?}");
        sleep(Duration::from_millis(10));
    }
}

const PHOTO: &str = "/trees/board/nodes/2.0/blobs/photo";

/// A disk flips a bit of a file.
fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 4;
    fs::write(file, &bytes).unwrap();
}

fn board(folder: &Path, settings: ServerSettings) -> Site {
    let site = Site::with(folder, settings);
    site.put("/trees/board", None).is(201);
    site.post("/trees/board/nodes/root/children", &json!({"attributes": {"a": "1"}})).is(201);
    site
}

#[test]
fn a_blob_comes_out_as_it_went_in_also_after_a_start() {
    let folder = Folder::new();
    let place = folder.join("data");
    let site = board(&place, settings());
    let bytes = large(1);
    let put = site.put_bytes(PHOTO, &bytes, &[]);
    put.is(200);
    let mark = put.header("etag").unwrap().to_owned();
    site.put_bytes("/trees/board/nodes/2.0/blobs/empty", b"", &[]).is(200);
    let view = site.get("/trees/board/nodes/2.0").is(200);
    assert_eq!(view["node"]["attributes"], json!({"a": "1"}), "blobs have a field of their own");
    assert_eq!(view["node"]["blobs"]["photo"]["bytes"], bytes.len());
    assert_eq!(format!("\"{}\"", view["node"]["blobs"]["photo"]["sha256"].as_str().unwrap()), mark);
    let again = site.ask_with("GET", PHOTO, None, &[("if-none-match", &mark)]);
    assert_eq!(again.status, 304);
    site.post("/snapshot", &json!({})).is(200);
    let other = large(2);
    site.put_bytes(PHOTO, &other, &[("if-match", "\"1.0\"")]).is_problem(412, &["\"1.4\""]);
    site.put_bytes(PHOTO, &other, &[]).is(200);
    site.server.stop().unwrap();

    let site = Site::start(&place);
    assert_eq!(site.bytes(PHOTO).unwrap(), other);
    assert_eq!(
        site.bytes(&format!("{PHOTO}?at=4")).unwrap(),
        bytes,
        "a version of before has its own"
    );
    assert_eq!(site.bytes("/trees/board/nodes/2.0/blobs/empty").unwrap(), b"");
    assert_eq!(files(&place, "blob-").len(), 3);
    let blame = site.get("/trees/board/nodes/2.0/blame").is(200);
    assert_eq!(blame["attributes"]["$blob.photo"]["seq"], 5);
    site.server.stop().unwrap();
    let found = verify(&place).unwrap();
    assert_eq!((found.broken.len(), found.blobs), (0, 3), "{found:?}");
}

#[test]
fn a_blob_that_no_version_or_hold_names_is_freed_and_no_other() {
    let folder = Folder::new();
    let place = folder.join("data");
    let mut loose = forgetful();
    loose.store.durability = Durability::Interval;
    let site = board(&place, loose);
    site.put_bytes(PHOTO, &large(1), &[]).is(200);
    site.put("/holds/lease", Some(&json!({"seq": 3}))).is(200);
    site.put_bytes(PHOTO, &large(2), &[]).is(200);
    let append = |site: &Site| {
        site.post("/trees/board/nodes/root/children", &json!({"attributes": {}})).is(201);
    };
    (0..5).for_each(|_| append(&site));
    sleep(Duration::from_millis(100));
    assert_eq!(files(&place, "blob-").len(), 2, "the hold keeps the first");
    assert_eq!(site.bytes(&format!("{PHOTO}?at=3")).unwrap(), large(1));
    assert_eq!(site.ask("DELETE", "/holds/lease", None).status, 204);
    append(&site);
    stored(&place, 1);
    assert_eq!(site.bytes(PHOTO).unwrap(), large(2));
    let taken = site.ask("DELETE", PHOTO, None).is(200)["seq"].as_u64().unwrap();
    // A revert brings it back while a version has it.
    site.ask("POST", &format!("/commits/{taken}/revert"), None).is(200);
    (0..5).for_each(|_| append(&site));
    assert_eq!(site.bytes(PHOTO).unwrap(), large(2));
    site.ask("DELETE", PHOTO, None).is(200);
    site.get(PHOTO).is_problem(404, &["`photo`"]);
    (0..5).for_each(|_| append(&site));
    stored(&place, 0);
    // Files go before they are counted.
    let begun = Instant::now();
    while !site.get("/metrics").text.contains("jungle_blobs_freed_total 2\n") {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", site.get("/metrics").text);
    }
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let folder = Folder::new();
    let place = folder.join("data");
    let site = board(&place, forgetful());
    let bytes = large(1);
    site.put_bytes(PHOTO, &vec![7; (3 << 20) + 1], &[]).is_problem(413, &["3145728", "--blob-max"]);
    let none = "/trees/board/nodes/99.0/blobs/photo";
    site.put_bytes(none, &bytes, &[]).is_problem(404, &["99.0"]);
    let long = format!("/trees/board/nodes/2.0/blobs/{}", "n".repeat(250));
    site.put_bytes(&long, b"x", &[]).is_problem(400, &["1 to 249"]);
    site.put_bytes(PHOTO, b"x", &[("idempotency-key", "k")]).is_problem(400, &["a blob"]);
    let raw = json!({"attributes": {"$blob.photo": "x"}});
    site.patch("/trees/board/nodes/2.0", "application/json", &raw).is_problem(400, &[".../blobs/"]);
    site.get("/blobs/abc").is_problem(400, &["64 hexadecimal digits"]);
    stored(&place, 0);
    // Whoever breaks off in the middle has stored nothing.
    let address = site.server.address();
    let mut half = std::net::TcpStream::connect(address).unwrap();
    let head = format!("PUT {PHOTO} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900000\r\n\r\n");
    std::io::Write::write_all(&mut half, head.as_bytes()).unwrap();
    std::io::Write::write_all(&mut half, &bytes[..500_000]).unwrap();
    stored(&place, 1);
    drop(half);
    stored(&place, 0);
    site.get(PHOTO).is_problem(404, &["it has none"]);
}

/// One part of a blob, as download managers and players ask for it; several and wrong ones are ignored.
#[test]
fn a_part_of_a_blob_is_the_part_of_the_whole() {
    let folder = Folder::new();
    let site = board(&folder.join("data"), settings());
    let bytes = large(3);
    let last = bytes.len() - 1;
    let put = site.put_bytes(PHOTO, &bytes, &[]);
    put.is(200);
    let mark = put.header("etag").unwrap().to_owned();
    let by_hash = format!("/blobs/{}", mark.trim_matches('"'));
    let part = |path: &str, range: &str, known: &str| {
        let request = agent().get(format!("{}{path}", site.url));
        let request = request.header("range", range).header("if-range", known);
        let mut answer = request.call().unwrap();
        let told = answer.headers().get("content-range").map(|told| told.to_str().unwrap());
        let told = told.map(str::to_owned);
        let body = answer.body_mut().with_config().limit(1 << 30).read_to_vec().unwrap();
        (answer.status().as_u16(), told, body)
    };
    // Within a part that is read at once, over two of them, all but one byte, at the end, and beyond it.
    for (from, to) in
        [(0, 0), (5, 99), (262_000, 263_000), (1, last), (last, last), (700_000, last + 9)]
    {
        for path in [PHOTO, &by_hash] {
            let (status, told, body) = part(path, &format!("bytes={from}-{to}"), &mark);
            let to = to.min(last);
            assert_eq!(status, 206, "{from}-{to}");
            assert_eq!(told.unwrap(), format!("bytes {from}-{to}/{}", bytes.len()));
            assert!(body == bytes[from..=to], "{from}-{to}");
        }
    }
    assert!(part(PHOTO, "bytes=-1000", &mark).2 == bytes[bytes.len() - 1000..]);
    for (range, known) in
        [("bytes=0-1", "\"other\""), ("bytes=0-1,5-6", &mark), ("rows=1-2", &mark)]
    {
        let (status, told, body) = part(PHOTO, range, known);
        assert!(status == 200 && told.is_none() && body == bytes, "{range}");
    }
    let (status, told, body) = part(PHOTO, &format!("bytes={}-", bytes.len()), &mark);
    assert_eq!((status, told), (416, Some(format!("bytes */{}", bytes.len()))));
    assert!(String::from_utf8(body).unwrap().contains("leave it out"));
}

/// A part is checked by the hash of the whole: bytes that were not asked for tell that the disk has flipped some.
#[test]
fn a_part_of_a_damaged_blob_is_not_taken_for_whole() {
    let folder = Folder::new();
    let place = folder.join("data");
    let site = board(&place, settings());
    site.put_bytes(PHOTO, &large(1), &[]).is(200);
    let file = files(&place, "blob-").remove(0);
    flip(&file, 900_000);
    let request = agent().get(format!("{}{PHOTO}", site.url)).header("range", "bytes=10-20");
    // It breaks off before the first byte: a part so short is sent at once or not at all.
    let read = request.call().and_then(|mut answer| answer.body_mut().read_to_vec());
    assert!(read.is_err(), "{read:?}");
}

/// The story: a backup that was killed kept its version, and the blobs of it, until the next start.
#[test]
fn a_hold_with_a_lease_ends_by_itself_unless_it_is_asked_for_again() {
    let folder = Folder::new();
    let place = folder.join("data");
    let site = board(&place, forgetful());
    site.put_bytes(PHOTO, &large(1), &[]).is(200);
    let hold =
        |lease_s: u32| site.put("/holds/lease", Some(&json!({"seq": 3, "lease_s": lease_s})));
    hold(0).is_problem(400, &["1 to 86400", "leave `lease_s` out"]);
    hold(86_401).is_problem(400, &["1 to 86400"]);
    hold(3_600).is(200);
    site.put_bytes(PHOTO, &large(2), &[]).is(200);
    for _ in 0..5 {
        site.post("/trees/board/nodes/root/children", &json!({"attributes": {}})).is(201);
    }
    sleep(Duration::from_millis(100));
    assert_eq!(site.bytes(&format!("{PHOTO}?at=3")).unwrap(), large(1), "it is held");
    hold(1).is(200);
    // It goes with the next commit behind the end of its lease.
    let begun = Instant::now();
    while files(&place, "blob-").len() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is held on");
        site.post("/trees/board/nodes/root/children", &json!({"attributes": {}})).is(201);
        sleep(Duration::from_millis(50));
    }
    assert_eq!(site.bytes(PHOTO).unwrap(), large(2));
    assert_eq!(site.ask("DELETE", "/holds/lease", None).status, 404, "nothing is held any more");
}

/// Bits flip on disks: whoever reads such a blob does not take it for whole, and `verify` names it.
#[test]
fn a_damaged_blob_is_not_taken_for_whole() {
    let folder = Folder::new();
    let place = folder.join("data");
    let site = board(&place, settings());
    site.put_bytes(PHOTO, &large(1), &[]).is(200);
    let file = files(&place, "blob-").remove(0);
    let whole = fs::read(&file).unwrap();
    flip(&file, 77);
    let broken = site.bytes(PHOTO).unwrap_err();
    println!("{broken}");
    site.server.stop().unwrap();
    let found = verify(&place).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(found.broken.iter().any(|one| one.contains(name)), "{found:?}");
    // One that is gone is missed at a start, and nothing else is changed.
    fs::remove_file(&file).unwrap();
    let found = verify(&place).unwrap();
    assert!(found.broken.iter().any(|one| one.contains(name)), "{found:?}");
    let refused = jungle_server::Server::start(&place, settings(), Default::default());
    let told = refused.unwrap_err().to_string();
    assert!(told.contains(name) && told.contains("restore this file from a backup"), "{told}");
    fs::write(&file, &whole).unwrap();
    let site = Site::start(&place);
    assert_eq!(site.bytes(PHOTO).unwrap(), large(1));
}

#[test]
fn a_backup_has_the_blobs_of_its_version() {
    let folder = Folder::new();
    let site = board(&folder.join("data"), settings());
    site.put_bytes(PHOTO, &large(1), &[]).is(200);
    let list = site.get("/blobs").is(200);
    assert_eq!(list["blobs"].as_array().unwrap().len(), 1);
    let snapshot = site.bytes("/backup?at=3").unwrap();
    let copy = folder.join("copy");
    let read = |id: jungle::BlobId| site.bytes(&format!("/blobs/{id}")).map(std::io::Cursor::new);
    backed_up(&copy, 3, &mut &snapshot[..], read).unwrap();
    assert_eq!(verify(&copy).unwrap().broken, [""; 0]);
    let restored = Site::start(&copy);
    assert_eq!(restored.bytes(PHOTO).unwrap(), large(1));
    // A blob that does not come, or is another, makes it no backup.
    for (name, wrong) in [("none", Err("gone".to_owned())), ("other", Ok(b"other".to_vec()))] {
        let place = folder.join(name);
        let read = |_| wrong.clone().map(std::io::Cursor::new);
        let told = backed_up(&place, 3, &mut &snapshot[..], read).unwrap_err().to_string();
        assert!(told.contains("no whole backup") && told.contains("blob-"), "{told}");
        assert_eq!(files(&place, "snapshot-").len(), 0, "no start takes it for a database");
    }
}

impl Site {
    /// Sends bytes as the body.
    #[track_caller]
    pub(crate) fn put_bytes(&self, place: &str, bytes: &[u8], headers: &[(&str, &str)]) -> Answer {
        let kind = "application/octet-stream";
        let mut request = agent().put(format!("{}{place}", self.url)).content_type(kind);
        // So that a server which refuses it says so before it is sent.
        request = request.header("expect", "100-continue");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = Answer::of(request.send(bytes).unwrap());
        crate::described::hold("PUT", place, Some(&json!("bytes")), Some(kind), &answer);
        answer
    }

    /// The bytes of a body, if it comes whole.
    pub(crate) fn bytes(&self, place: &str) -> Result<Vec<u8>, String> {
        let answered = self.agent.get(format!("{}{place}", self.url)).call();
        let answered = answered.map_err(|error| error.to_string())?;
        if answered.status() != 200 {
            return Err(answered.status().to_string());
        }
        let mut bytes = Vec::new();
        let mut body = answered.into_body().into_reader();
        body.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }
}
