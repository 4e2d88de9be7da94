//! Finds the Python interpreter of the installed Hermes, starting from the program `hermes` on the path.

use std::path::{Path, PathBuf};

use crate::executable;

pub fn python() -> Option<PathBuf> {
    let program = executable::find("hermes")?;
    let program = program.canonicalize().unwrap_or(program);
    beside(&program).or_else(|| named_in(&program))
}

/// In a virtual environment, program and interpreter are in the same directory.
fn beside(program: &Path) -> Option<PathBuf> {
    let directory = program.parent()?;
    // Outside of a virtual environment, the interpreter in the same directory may be the wrong one.
    directory
        .parent()?
        .join("pyvenv.cfg")
        .is_file()
        .then_some(())?;
    executable::find(directory.join("python").to_str()?)
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
    executable::find(interpreter)
}
