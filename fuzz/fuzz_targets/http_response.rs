//! A response means the same in whatever portions it comes, and is never taken for two.
//!
//! Input: a byte of which the lowest bit chooses GET or HEAD, a byte that seeds the portions, the
//! response.
#![no_main]

mod portions;

use libfuzzer_sys::fuzz_target;
use load::http::{Method, read_response};

fuzz_target!(|input: &[u8]| {
    let [method, seed, bytes @ ..] = input else { return };
    let method = if method & 1 == 0 { Method::Get } else { Method::Head };
    let whole = read_response(method, [bytes]);
    assert_eq!(read_response(method, portions::cut(*seed, bytes)), whole, "portions matter");
    assert_eq!(read_response(method, bytes.chunks(1)), whole, "single bytes matter");
    let Ok(read) = whole else { return };
    assert!(read.bytes <= bytes.len() as u64, "{read:?} of {} bytes", bytes.len());
    // Statuses that HTTP does not know are answers too, failed ones; interim ones are none.
    assert!(read.status == 101 || !(100..200).contains(&read.status), "{read:?}");
    if read.keeps_open {
        // What ends by itself ends there, whatever follows.
        let own = &bytes[..read.bytes as usize];
        assert_eq!(read_response(method, [own]), Ok(read));
        assert_eq!(read_response(method, [own, b"HTTP/1.1 "]), Ok(read));
    }
});
