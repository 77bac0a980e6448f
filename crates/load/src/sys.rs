//! The system calls that the standard library does not offer: epoll, sockets that connect without
//! blocking, discarding receives, thread clocks and pinning. All `unsafe` of the crate is here.

use std::io;
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Readable, or closed by the peer.
pub(crate) const IN: u32 = libc::EPOLLIN as u32;
/// Writable, or a connection attempt has ended.
pub(crate) const OUT: u32 = libc::EPOLLOUT as u32;

/// Event that epoll reports.
pub(crate) type Ready = libc::epoll_event;

pub(crate) fn no_event() -> Ready {
    Ready { events: 0, u64: 0 }
}

/// An epoll instance; level-triggered.
#[derive(Debug)]
pub(crate) struct Epoll {
    fd: OwnedFd,
    /// Whether the kernel has `epoll_pwait2` (Linux 5.11), which counts in nanoseconds.
    fine: bool,
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just made and belongs to nobody else.
        Ok(Epoll { fd: unsafe { OwnedFd::from_raw_fd(fd) }, fine: true })
    }

    pub(crate) fn add(&self, fd: RawFd, interest: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, interest, token)
    }

    pub(crate) fn change(&self, fd: RawFd, interest: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, interest, token)
    }

    fn control(&self, what: i32, fd: RawFd, interest: u32, token: u64) -> io::Result<()> {
        let mut event = Ready { events: interest, u64: token };
        // SAFETY: `event` lives through the call; both descriptors are open.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd, &raw mut event) }).map(drop)
    }

    /// Waits for events at most `span`; an interruption by a signal counts as none. On a kernel
    /// without `epoll_pwait2` it returns up to a millisecond early, never late.
    pub(crate) fn wait(&mut self, events: &mut [Ready], span: Duration) -> io::Result<usize> {
        let capacity = events.len() as i32;
        if self.fine && !span.is_zero() {
            let span = libc::timespec {
                tv_sec: span.as_secs() as libc::time_t,
                tv_nsec: libc::c_long::from(span.subsec_nanos() as i32),
            };
            // SAFETY: `events` and `span` live through the call; no signal mask is given.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    self.fd.as_raw_fd(),
                    events.as_mut_ptr(),
                    capacity,
                    &raw const span,
                    std::ptr::null::<libc::sigset_t>(),
                    0_usize,
                )
            };
            match check(count as i32) {
                Ok(count) => return Ok(count as usize),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => return Ok(0),
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => self.fine = false,
                Err(error) => return Err(error),
            }
        }
        let millis = i32::try_from(span.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: `events` lives through the call.
        let count =
            unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events.as_mut_ptr(), capacity, millis) };
        match check(count) {
            Ok(count) => Ok(count as usize),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// A TCP socket that never blocks.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// A socket for the address's family.
    pub(crate) fn new(address: &SocketAddr) -> io::Result<Socket> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::socket(family, kind, 0) })?;
        // SAFETY: the descriptor was just made and belongs to nobody else.
        Ok(Socket(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// A socket that is open, which from now on does not block.
    pub(crate) fn of(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        Ok(Socket(stream.into()))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Begins to connect. That the attempt is under way is no error.
    pub(crate) fn connect(&self, address: &RawAddress) -> io::Result<()> {
        // SAFETY: the address holds at least `length` initialised bytes.
        let done = unsafe {
            libc::connect(self.fd(), (&raw const address.storage).cast(), address.length)
        };
        match check(done) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends what fits.
    #[inline]
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: `bytes` lives through the call.
        let sent = unsafe {
            libc::send(self.fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives what is there; 0 is the end.
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: `buffer` lives through the call.
        let got = unsafe { libc::recv(self.fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }

    /// Receives at most `length` bytes and throws them away in the kernel, without a copy; 0 is the
    /// end.
    pub(crate) fn discard(&self, length: usize) -> io::Result<usize> {
        // SAFETY: with MSG_TRUNC the kernel does not write to a TCP receiver's buffer (tcp(7)).
        let got = unsafe { libc::recv(self.fd(), std::ptr::null_mut(), length, libc::MSG_TRUNC) };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }

    pub(crate) fn set_no_delay(&self) -> io::Result<()> {
        self.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32)
    }

    /// Asks for a receive buffer of this size \[bytes\].
    pub(crate) fn set_receive_buffer(&self, bytes: u32) -> io::Result<()> {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes)
    }

    /// Lets closing reset the connection instead of finishing it.
    pub(crate) fn set_reset_on_close(&self) -> io::Result<()> {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        self.set(libc::SOL_SOCKET, libc::SO_LINGER, &linger)
    }

    fn set<T>(&self, level: i32, name: i32, value: &T) -> io::Result<()> {
        let length = mem::size_of::<T>() as libc::socklen_t;
        // SAFETY: `value` lives through the call and has the given length.
        let done = unsafe {
            libc::setsockopt(self.fd(), level, name, std::ptr::from_ref(value).cast(), length)
        };
        check(done).map(drop)
    }
}

/// An address as the kernel wants it.
#[derive(Clone, Copy)]
pub(crate) struct RawAddress {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl RawAddress {
    pub(crate) fn new(address: &SocketAddr) -> RawAddress {
        // SAFETY: all-zero is a valid `sockaddr_storage`.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        let to = &raw mut storage;
        let length = match address {
            SocketAddr::V4(v4) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: the storage is made to hold, and is aligned for, every address.
                unsafe { to.cast::<libc::sockaddr_in>().write(raw) };
                mem::size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { to.cast::<libc::sockaddr_in6>().write(raw) };
                mem::size_of::<libc::sockaddr_in6>()
            }
        };
        RawAddress { storage, length: length as libc::socklen_t }
    }
}

/// CPU time that the calling thread has used.
pub fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call. It cannot fail: every thread has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Lets the calling thread's timers fire when they are due, not up to 50 us later.
pub fn set_timer_slack_least() {
    // SAFETY: no pointers. If it fails, sleeps are up to 50 us longer, and the lag shows it.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize, 0_usize, 0_usize, 0_usize) };
}

/// Binds the calling thread to one processor.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: all-zero is an empty set, and `cpu` was checked to be within it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        set
    };
    // SAFETY: `set` lives through the call; 0 is the calling thread.
    check(unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set) }).map(drop)
}

/// Raises the limit on open descriptors as far as it goes; what it is then.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    }
    Ok(limit.rlim_cur)
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
