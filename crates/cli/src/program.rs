//! How the program was started: it starts itself again, and suggests commands, in the same way.

use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

/// How the program was started.
#[derive(Debug)]
pub struct Program {
    /// Its arguments. The first is the name that it was called by.
    pub args: Vec<OsString>,
    /// The words that start it again, before its arguments: a file, or an interpreter and its arguments.
    pub command: Vec<OsString>,
    /// Sets the allocator to keep memory, before training begins.
    pub keep_memory: fn(),
}

impl Default for Program {
    /// How this process was started.
    fn default() -> Self {
        let own = std::env::current_exe().map_or_else(|_| super::NAME.into(), OsString::from);
        Self { args: std::env::args_os().collect(), command: vec![own], keep_memory: || {} }
    }
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// Sets how the program was started. Only the first call counts.
pub(super) fn start(program: Program) -> &'static Program {
    PROGRAM.get_or_init(|| program)
}

pub(super) fn program() -> &'static Program {
    PROGRAM.get_or_init(Program::default)
}

impl Program {
    pub(super) fn arguments(&self) -> impl Iterator<Item = &OsString> {
        self.args.iter().skip(1)
    }

    /// The file that starts it again, and the words before its arguments.
    pub(super) fn again(&self) -> (OsString, Vec<OsString>) {
        match self.command.split_first() {
            Some((file, before)) => (file.clone(), before.to_vec()),
            None => (super::NAME.into(), Vec::new()),
        }
    }

    /// A command that starts it again.
    pub(super) fn child(&self) -> Command {
        let (file, before) = self.again();
        let mut command = Command::new(file);
        command.args(before);
        command
    }
}
