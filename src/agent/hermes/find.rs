//! Finding a Hermes that is installed: by the program `hermes` on the path, whose interpreter has the rest of it.

use std::path::{Path, PathBuf};

use crate::agent::process::which;

/// The interpreter of the Hermes that is installed here.
pub fn python() -> Option<PathBuf> {
    let program = which("hermes")?;
    let program = program.canonicalize().unwrap_or(program);
    beside(&program).or_else(|| named_in(&program))
}

/// In a virtual environment both stand side by side.
fn beside(program: &Path) -> Option<PathBuf> {
    let directory = program.parent()?;
    // Not where the system's own programs are: the interpreter there need not be the right one.
    directory
        .parent()?
        .join("pyvenv.cfg")
        .is_file()
        .then_some(())?;
    which(directory.join("python").to_str()?)
}

/// The interpreter that a script names in its first line.
fn named_in(program: &Path) -> Option<PathBuf> {
    let text = std::fs::read(program).ok()?;
    let line = text.split(|b| *b == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.strip_prefix("#!")?;
    let interpreter = line.split_whitespace().next()?;
    if !interpreter.contains("python") {
        return None;
    }
    which(interpreter)
}
