//! A way between two sides that can do what networks do: go mute without an end, forget the connections
//! that there are, be slow with cancel requests or reset their connections, or break off. What passes
//! towards the server is kept.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::SockRef;

/// What the first eight bytes of a cancel request say.
const CANCEL: u32 = 80_877_102;
/// How often somebody who hears nothing looks whether all has ended.
const TURN: Duration = Duration::from_millis(10);

pub(super) struct Passage {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    mute: AtomicBool,
    over: AtomicBool,
    /// By how much cancel requests are late \[ms\].
    late: AtomicU64,
    links: AtomicU64,
    /// How many of these it has forgotten, the first ones.
    forgotten: AtomicU64,
    said: Mutex<Vec<u8>>,
    /// It falls silent when it has passed this on.
    last: Mutex<Option<Vec<u8>>>,
    /// True if connections of cancel requests are reset, as soon as the request is here.
    resets: AtomicBool,
}

impl Passage {
    pub(super) fn to(server: SocketAddr) -> Passage {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                if all.over.load(Ordering::Relaxed) {
                    return;
                }
                let (near, all) = (near.unwrap(), Arc::clone(&all));
                std::thread::spawn(move || all.link(near, server));
            }
        });
        Passage { address, shared }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing passes, and no end either.
    pub(super) fn falls_silent(&self) {
        self.shared.mute.store(true, Ordering::Relaxed);
    }

    /// From when this was said to the server nothing passes, and no end either.
    pub(super) fn falls_silent_after(&self, said: &str) {
        *self.shared.last.lock().unwrap() = Some(said.as_bytes().to_vec());
    }

    /// Whether it is silent.
    pub(super) fn is_silent(&self) -> bool {
        self.shared.mute.load(Ordering::Relaxed)
    }

    /// What was held up passes, and so does all that comes.
    pub(super) fn is_mended(&self) {
        self.shared.mute.store(false, Ordering::Relaxed);
    }

    /// Nothing more passes of the connections that there are, and no end either; others are as before.
    pub(super) fn forgets(&self) {
        self.shared.forgotten.store(self.links(), Ordering::Relaxed);
    }

    pub(super) fn is_late_with_cancels(&self, by: Duration) {
        self.shared.late.store(by.as_millis() as u64, Ordering::Relaxed);
    }

    /// Who sends a cancel request finds its connection reset, and the request comes all the same.
    pub(super) fn resets_cancels(&self) {
        self.shared.resets.store(true, Ordering::Relaxed);
    }

    /// How many connections have been made.
    pub(super) fn links(&self) -> u64 {
        self.shared.links.load(Ordering::Relaxed)
    }

    /// What was said to the server since this was asked last.
    pub(super) fn said(&self) -> Vec<u8> {
        std::mem::take(&mut *self.shared.said.lock().unwrap())
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // Wakes who accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// Whether the first that is said on a connection is a cancel request.
fn is_cancel(stream: &TcpStream) -> bool {
    let mut head = [0; 8];
    // A packet that short comes in one piece.
    let read = stream.peek(&mut head).unwrap_or(0);
    read == head.len() && head[4..] == CANCEL.to_be_bytes()
}

impl Shared {
    /// Serves a connection until it ends.
    fn link(self: &Arc<Shared>, near: TcpStream, server: SocketAddr) {
        let number = self.links.fetch_add(1, Ordering::Relaxed);
        // A server that is down is one that takes the connection and ends it.
        let Ok(far) = TcpStream::connect(server) else { return };
        if self.resets.load(Ordering::Relaxed) && is_cancel(&near) {
            return self.reset(near, far);
        }
        for stream in [&near, &far] {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(TURN)).unwrap();
        }
        let ends = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let all = Arc::clone(self);
        std::thread::spawn(move || all.pass(number, far, near, |_| {}));
        let (near, far) = ends;
        let mut first = true;
        self.pass(number, near, far, |bytes| {
            let code = bytes.get(4..8).map(|code| u32::from_be_bytes(code.try_into().unwrap()));
            if std::mem::take(&mut first) && code == Some(CANCEL) {
                std::thread::sleep(Duration::from_millis(self.late.load(Ordering::Relaxed)));
            }
            self.said.lock().unwrap().extend_from_slice(bytes);
            let last = &mut *self.last.lock().unwrap();
            let has = |last: &Vec<u8>| bytes.windows(last.len()).any(|part| part == last);
            if last.as_ref().is_some_and(has) {
                *last = None;
                // This passes on, and not what is said to it.
                self.mute.store(true, Ordering::Relaxed);
            }
        });
    }

    /// Takes a cancel request, resets its connection, and passes it on later.
    fn reset(&self, mut near: TcpStream, mut far: TcpStream) {
        let mut request = [0; 512];
        let read = near.read(&mut request).unwrap();
        SockRef::from(&near).set_linger(Some(Duration::ZERO)).unwrap();
        drop(near);
        std::thread::sleep(Duration::from_millis(self.late.load(Ordering::Relaxed)));
        // The server may have ended by then.
        let _ = far.write_all(&request[..read]);
        let _ = far.read(&mut request);
    }

    fn holds_up(&self, number: u64) -> bool {
        self.mute.load(Ordering::Relaxed) || number < self.forgotten.load(Ordering::Relaxed)
    }

    /// Passes on what one side says, with its end.
    fn pass(
        &self,
        number: u64,
        mut from: TcpStream,
        mut to: TcpStream,
        mut see: impl FnMut(&[u8]),
    ) {
        let mut room = [0; 16 * 1024];
        while !self.over.load(Ordering::Relaxed) {
            let read = match from.read(&mut room) {
                Ok(read) => read,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    continue;
                }
                Err(_) => 0,
            };
            while self.holds_up(number) && !self.over.load(Ordering::Relaxed) {
                std::thread::sleep(TURN);
            }
            see(&room[..read]);
            if read == 0 || to.write_all(&room[..read]).is_err() {
                break;
            }
        }
        // Either may have gone.
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
