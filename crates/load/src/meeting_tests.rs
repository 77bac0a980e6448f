//! Parts that meet, and strangers among them.

use std::sync::Arc;

use super::*;

fn part(text: &str) -> RunPart {
    text.parse().unwrap()
}

fn plan(seed: u32) -> Vec<String> {
    vec!["number of parts: 3".into(), "rate: 200/s".into(), format!("seed: {seed}")]
}

#[test]
fn a_start_is_laid_down_once_when_all_are_there() {
    let mut table = Table::new(part("1/3"), &plan(1));
    assert_eq!((table.missing(), table.start(5)), (vec![2, 3], None));
    assert_eq!(table.enter(3, &plan(1), 70), Entry::Welcome);
    assert_eq!(table.enter(3, &plan(1), 71), Entry::Twice);
    assert_eq!((table.missing(), table.start(6)), (vec![2], None));
    // One that is killed is missing again, and may come back.
    table.leave(70);
    assert_eq!(table.missing(), [2, 3]);
    assert_eq!(table.enter(2, &plan(1), 72), Entry::Welcome);
    assert_eq!(table.enter(3, &plan(1), 73), Entry::Welcome);
    assert_eq!(table.start(7), Some(1_500_007));
    // One that is lost after the start was laid down changes nothing.
    table.leave(73);
    assert_eq!((table.missing(), table.start(9)), (vec![], Some(1_500_007)));
    for stranger in [0, 1, 4] {
        assert_eq!(table.enter(stranger, &plan(1), 74), Entry::Twice, "part {stranger} of 3");
    }
}

#[test]
fn who_has_another_plan_does_not_enter_and_both_sides_are_told() {
    let mut table = Table::new(part("1/3"), &plan(1));
    let Entry::Differs(there) = table.enter(2, &plan(4), 70) else { panic!("they differ") };
    let says = MeetError::Differs(Box::new(there)).to_string();
    assert!(says.starts_with("part 1 waits for another plan: its seed is 1, and here it is 4"));
    assert_eq!(table.missing(), [2, 3]);
    let (numbers, refused) = (table.missing(), table.refused.clone().map(Box::new));
    let patience = Duration::from_secs(9);
    let says = MeetError::Missing { numbers, of: 3, patience, refused }.to_string();
    let wanted = "parts 2, 3 of 3 did not come within 9s: part 2 came with another plan, its seed is \
                  4 and here it is 1; start";
    assert!(says.starts_with(wanted), "{says}");
    let fewer = &plan(1)[..2];
    assert!(matches!(table.enter(2, fewer, 70), Entry::Differs(found) if found.what == "seed"));
}

fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn meeting(part_of: &str, address: SocketAddr, patience_ms: u64) -> Meeting {
    let patience = Duration::from_millis(patience_ms);
    Meeting { part: part(part_of), addresses: vec![address], patience }
}

fn attend(meeting: &Meeting, seed: u32) -> Result<Start, MeetError> {
    meeting.attend(&plan(seed), &AtomicBool::new(false), &mut |_| {})
}

/// On one machine the clocks are one: what the parts take for the start differs by no more than they say.
#[test]
fn parts_agree_on_the_start_whoever_comes_first() {
    for order in [["1/3", "2/3", "3/3"], ["3/3", "2/3", "1/3"]] {
        let address = free_port();
        let starts: Vec<Start> = thread::scope(|scope| {
            let come = |of| {
                let part = scope.spawn(move || attend(&meeting(of, address, 20_000), 1).unwrap());
                thread::sleep(Duration::from_millis(120));
                part
            };
            let parts = order.map(come);
            parts.map(|part| part.join().unwrap()).into()
        });
        let first = starts.iter().find(|start| start.record.part.number() == 1).unwrap();
        assert_eq!(first.record.clock_error_s, 0.0);
        for start in &starts {
            assert_eq!(start.record.start_us, first.record.start_us);
            let apart = start.at.max(first.at) - start.at.min(first.at);
            // A microsecond for the clock's own steps.
            let sure = start.record.clock_error_s + 2e-6;
            assert!(apart.as_secs_f64() <= sure, "{apart:?}, {:?}", start.record);
            assert!(start.at > Instant::now(), "there is time to get ready");
        }
        let interrupt = AtomicBool::new(false);
        let (begun, record) = starts[1].wait(&interrupt).unwrap();
        assert_eq!(begun, starts[1].at);
        assert!((0.0..0.5).contains(&record.late_s), "{record:?}");
    }
}

#[test]
fn who_is_missing_is_named_on_both_sides() {
    let address = free_port();
    let (host, guest) = thread::scope(|scope| {
        let host = scope.spawn(|| attend(&meeting("1/3", address, 900), 1).unwrap_err());
        let guest = scope.spawn(|| attend(&meeting("2/3", address, 600), 1).unwrap_err());
        (host.join().unwrap().to_string(), guest.join().unwrap().to_string())
    });
    assert!(guest.starts_with("part 3 of 3 did not come within 600ms; start"), "{guest}");
    assert!(host.starts_with("parts 2, 3 of 3 did not come within 900ms; start"), "{host}");
    let alone = attend(&meeting("2/3", address, 200), 1).unwrap_err().to_string();
    assert!(
        alone.starts_with(&format!("part 1 was not found at {address} within 200ms")),
        "{alone}"
    );
}

#[test]
fn another_plan_the_same_part_and_a_taken_port_are_told() {
    let address = free_port();
    let interrupt = AtomicBool::new(false);
    thread::scope(|scope| {
        let host = scope.spawn(|| {
            let host = meeting("1/3", address, 20_000);
            host.attend(&plan(1), &interrupt, &mut |_| {}).unwrap_err()
        });
        let differs = attend(&meeting("2/3", address, 9_000), 2).unwrap_err();
        assert!(matches!(&differs, MeetError::Differs(found) if found.what == "seed"), "{differs}");
        let other = scope.spawn(|| attend(&meeting("2/3", address, 9_000), 1).unwrap_err());
        thread::sleep(Duration::from_millis(300));
        let twice = attend(&meeting("2/3", address, 9_000), 1).unwrap_err();
        assert!(matches!(twice, MeetError::Twice { number: 2 }), "{twice}");
        let taken = attend(&meeting("1/3", address, 9_000), 1).unwrap_err().to_string();
        assert!(taken.starts_with(&format!("part 1 cannot listen at {address}: ")), "{taken}");
        interrupt.store(true, Ordering::Relaxed);
        let interrupted = host.join().unwrap();
        assert!(matches!(interrupted, MeetError::Interrupted), "{interrupted}");
        // Part 2 is left alone: part 1 went.
        let gone = other.join().unwrap();
        assert!(matches!(gone, MeetError::NoHost { .. }), "{gone}");
    });
}

/// Strangers may connect, hold still, or talk nonsense: the parts meet all the same.
#[test]
fn strangers_neither_hinder_nor_enter() {
    let address = free_port();
    let start = thread::scope(|scope| {
        let host = scope.spawn(|| attend(&meeting("1/2", address, 20_000), 1).unwrap());
        thread::sleep(Duration::from_millis(200));
        let silent = TcpStream::connect(address).unwrap();
        let mut loud = TcpStream::connect(address).unwrap();
        loud.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut early = TcpStream::connect(address).unwrap();
        early.write_all(b"\"clock\"\n").unwrap();
        let mut first = TcpStream::connect(address).unwrap();
        first.write_all(b"{\"part\":{\"version\":1,\"number\":1,\"plan\":[]}}\n").unwrap();
        // One that never ends its line: the start waited for it, and no interrupt helped.
        let over = Arc::new(AtomicBool::new(false));
        let (mut dripping, is_over) = (TcpStream::connect(address).unwrap(), Arc::clone(&over));
        let drip = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) && dripping.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let guest = attend(&meeting("2/2", address, 9_000), 1).unwrap();
        let joined = Instant::now();
        let host = host.join().unwrap();
        // The meeting lasts some tenths of a second from the last part on.
        assert!(joined.elapsed() < Duration::from_secs(5), "{:?}", joined.elapsed());
        over.store(true, Ordering::Relaxed);
        drip.join().unwrap();
        drop(silent);
        assert_eq!(host.record.start_us, guest.record.start_us);
        host
    });
    assert_eq!(start.record.part, part("1/2"));
    // And whoever listens where part 1 should, is told apart from it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
    });
    let stranger = attend(&meeting("2/2", address, 9_000), 1).unwrap_err().to_string();
    assert!(stranger.contains("is no part 1 of a run"), "{stranger}");
    assert!(stranger.contains("it says `HTTP/1.1 400 Bad Request"), "{stranger}");
    server.join().unwrap();
}
