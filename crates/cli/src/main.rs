//! The program: arguments in, one command out.

use std::process::ExitCode;

use millstream_cli::Program;

#[cfg(target_os = "linux")]
mod allocator;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    allocator::share_heap();
    millstream_cli::run(Program {
        #[cfg(target_os = "linux")]
        keep_memory: allocator::keep_memory,
        ..Program::default()
    })
}
