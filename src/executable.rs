//! Finds programs as a start of them would.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file of a program: itself if the name is a path, else the first on the path. `None` if there is no such file, or
/// if it is not executable.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_executable(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|path| is_executable(path))
}

/// Why a program cannot be started. `None` if it can.
pub(crate) fn missing(program: &str) -> Option<String> {
    match find(program) {
        Some(_) => None,
        None if !program.contains('/') => Some(format!("{program} is not on the path")),
        None if Path::new(program).exists() => Some(format!("{program} is not executable")),
        None => Some(format!("{program} does not exist")),
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_cannot_start_says_why() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("hook");
        let name = file.display().to_string();
        assert_eq!(missing(&name), Some(format!("{name} does not exist")));
        std::fs::write(&file, "#!/bin/sh\n").expect("a file");
        assert_eq!(missing(&name), Some(format!("{name} is not executable")));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).expect("a mode");
        assert_eq!(missing(&name), None);
        let none = "no-such-program-anywhere";
        assert_eq!(missing(none), Some(format!("{none} is not on the path")));
    }
}
