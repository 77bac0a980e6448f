//! The border between the page and [`answer`](crate::answer): three functions over two buffers in the
//! module's own memory.
//!
//! The page calls `input(length)` and writes a request in UTF-8 where that points to, calls `call()`,
//! which returns the length of the reply, and reads the reply where `output()` points to. No pointer
//! ever comes back in, so nothing here is unsafe but the exported names.
//!
//! A panic traps. The hook has then put its message into the output, and `panicked()` tells its
//! length; the page reads it, throws the instance away and starts another.

// Exported names must not be mangled, which the compiler counts as unsafe: two functions of one name
// would collide. There is nothing else in this module to collide with.
#![cfg_attr(target_family = "wasm", allow(unsafe_code))]

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Request that goes in, and reply that came out.
struct Buffers {
    input: Vec<u8>,
    output: Vec<u8>,
    panicked: bool,
}

static BUFFERS: Mutex<Buffers> =
    Mutex::new(Buffers { input: Vec::new(), output: Vec::new(), panicked: false });

/// A panic may have happened while somebody held them; bytes are bytes.
fn buffers() -> MutexGuard<'static, Buffers> {
    BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets room for a request aside and says where.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub(crate) extern "C" fn input(length: usize) -> *const u8 {
    let mut buffers = buffers();
    buffers.input = vec![0; length];
    buffers.input.as_ptr()
}

/// Answers the request that was written; returns the length of the reply.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub(crate) extern "C" fn call() -> usize {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|panic| keep(&panic.to_string()))));
    // Taken out, so that no lock is held while the answer is made: the hook needs it.
    let request = std::mem::take(&mut buffers().input);
    let reply = crate::answer(&String::from_utf8_lossy(&request));
    let mut buffers = buffers();
    buffers.output = reply.into_bytes();
    buffers.panicked = false;
    buffers.output.len()
}

/// Start of the reply, or of the message of a panic.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub(crate) extern "C" fn output() -> *const u8 {
    buffers().output.as_ptr()
}

/// The length of the message of a panic; 0 if nothing panicked.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub(crate) extern "C" fn panicked() -> usize {
    let buffers = buffers();
    if buffers.panicked { buffers.output.len() } else { 0 }
}

/// Keeps the message of a panic for the page.
fn keep(message: &str) {
    let mut buffers = buffers();
    buffers.output = message.as_bytes().to_vec();
    buffers.panicked = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both in one test: the buffers are the process's.
    #[test]
    fn a_request_goes_in_and_its_reply_or_a_panic_comes_out() {
        let request = br#"{"ask": "nothing"}"#;
        assert!(!input(request.len()).is_null());
        buffers().input.copy_from_slice(request);
        let length = call();
        let reply = buffers().output.clone();
        assert!(!output().is_null());
        assert_eq!(reply.len(), length);
        let text = String::from_utf8(reply).expect("JSON is text");
        assert!(
            text.starts_with(r#"{"error":"the request cannot be read: unknown variant"#),
            "{text}"
        );
        assert_eq!(panicked(), 0);

        // The hook that `call` has set sees what panics afterwards.
        let result = std::panic::catch_unwind(|| panic!("the queue is upside down"));
        assert!(result.is_err());
        let message = buffers().output.clone();
        assert_eq!(panicked(), message.len());
        let message = String::from_utf8(message).expect("a message is text");
        assert!(message.contains("the queue is upside down"), "{message}");
        drop(std::panic::take_hook());
    }
}
