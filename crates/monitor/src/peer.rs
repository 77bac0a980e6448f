//! The process at the other end of a socket of this machine, as the system knows it: system calls
//! that the standard library does not make.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::AsRawFd;

/// A user's entry is not larger \[byte\].
const ENTRY_MAX: usize = 1 << 16;

/// The name of the system's user who has connected; `None` if it has none.
///
/// # Errors
/// If the system does not say.
pub(super) fn user_of(stream: &impl AsRawFd) -> io::Result<Option<Vec<u8>>> {
    name_of(credentials_of(stream)?.uid)
}

/// User and process that have connected, or listen, as they were then. The process is 0 if it is
/// not seen from here.
///
/// # Errors
/// If the system does not say.
#[allow(unsafe_code)]
pub(super) fn credentials_of(stream: &impl AsRawFd) -> io::Result<libc::ucred> {
    let mut found = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `found` and `length` outlive the call, and `length` is the size of `found`.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found)
}

#[allow(unsafe_code)]
fn name_of(uid: libc::uid_t) -> io::Result<Option<Vec<u8>>> {
    let mut room: Vec<libc::c_char> = vec![0; 1024];
    loop {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found: *mut libc::passwd = std::ptr::null_mut();
        // SAFETY: all of it outlives the call, and the length is that of `room`.
        let error = unsafe {
            libc::getpwuid_r(uid, entry.as_mut_ptr(), room.as_mut_ptr(), room.len(), &raw mut found)
        };
        match error {
            libc::ERANGE if room.len() < ENTRY_MAX => room.resize(2 * room.len(), 0),
            0 if found.is_null() => return Ok(None),
            0 => {
                // SAFETY: the entry was found, and its name ends with 0 within `room`, which is here.
                let name = unsafe { std::ffi::CStr::from_ptr((*found).pw_name) };
                return Ok(Some(name.to_bytes().to_vec()));
            }
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}
