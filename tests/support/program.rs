//! Programs of the user's, as hooks run them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Home;

/// An executable in the home; `$OUT` in its script is the file beside it that it may write to.
pub fn program(home: &Home, name: &str, script: &str) -> (String, PathBuf) {
    let (path, out) = (
        home.path().join(name),
        home.path().join(format!("{name}.out")),
    );
    let text = format!("#!/bin/sh\nOUT='{}'\n{script}\n", out.display());
    std::fs::write(&path, text).expect("a program");
    let executable = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&path, executable).expect("a program that may be run");
    (path.display().to_string(), out)
}

/// What a program that writes down its input was told so far.
pub fn told(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("JSON in each line")
}
