//! A look at the machine before hundreds of connections: its load, descriptors, and room for those that wait to be
//! accepted.

use cli::Failure;

/// Descriptors of a process for other things than connections.
const SPARE: u64 = 100;

/// Load of this machine, the mean number of runnable tasks over a minute; none if the kernel does not tell.
pub fn machine_load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Refuses so many connections at once if this machine has no room for them.
///
/// # Errors
/// [`Failure::Usage`], with what is too small and the command that makes it larger.
pub fn preflight(connections: u32) -> Result<(), Failure> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    // The hard limit: boards and load engine raise themselves to it.
    let descriptors = limit.maximum.unwrap_or(u64::MAX);
    let backlog = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
    let backlog = backlog.ok().and_then(|text| text.trim().parse().ok());
    match short(u64::from(connections), descriptors, backlog) {
        Some(what) => Err(Failure::Usage(what)),
        None => Ok(()),
    }
}

/// The thing that is too small, and the way out.
fn short(connections: u64, descriptors: u64, backlog: Option<u64>) -> Option<String> {
    let wanted = connections + SPARE;
    if descriptors < wanted {
        return Some(format!(
            "{connections} connections at once need {wanted} descriptors, and a process may have {descriptors}: raise \
             the hard limit (as root `ulimit -Hn {wanted}`, for good in /etc/security/limits.conf), and begin again"
        ));
    }
    match backlog {
        Some(backlog) if backlog < connections => Some(format!(
            "{connections} connections are opened at once, and net.core.somaxconn lets {backlog} wait to be accepted, so \
             that others would be dropped and come again after seconds: `sudo sysctl -w net.core.somaxconn=10000`, and \
             begin again"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_room_is_told_what_to_make_larger() {
        assert_eq!(short(900, 1_000, Some(900)), None);
        assert_eq!(short(900, 20_000, None), None, "where the kernel does not tell, the runs will");
        let few = short(900, 999, Some(10_000)).unwrap();
        assert!(few.contains("`ulimit -Hn 1000`") && few.contains("may have 999"), "{few}");
        let backlog = short(900, 20_000, Some(128)).unwrap();
        assert!(backlog.contains("sysctl -w net.core.somaxconn=10000"), "{backlog}");
        assert!(backlog.contains("lets 128 wait"), "{backlog}");
    }
}
