//! The binary: nothing but the door to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The origin starts worker processes by starting this program again; such a start ends here.
    let supervised = origin::run_if_supervisor();
    sekisho::main(supervised)
}
