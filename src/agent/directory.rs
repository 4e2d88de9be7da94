//! Checks the directory that a session works in. An agent never works in another one instead.

use std::path::Path;

use nix::unistd::{AccessFlags, access};

use crate::domain::Session;

/// The longest path that the kernel accepts.
const LONGEST: usize = 4096;

/// Why no agent can work in the directory of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectoryProblem {
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl std::fmt::Display for DirectoryProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.message, self.remedy)
    }
}

/// Checks a directory that a client names for a session. It may be missing for now.
pub fn check_name(cwd: &str) -> Result<(), String> {
    if !cwd.starts_with('/') {
        return Err(format!("{cwd:?} is not an absolute path"));
    }
    if cwd.len() >= LONGEST || cwd.contains('\0') {
        return Err("this is not the path of a directory".to_owned());
    }
    Ok(())
}

/// Checks that an agent can work in the directory of a session.
pub fn check(session: &Session) -> Result<(), DirectoryProblem> {
    match &session.cwd {
        Some(cwd) => check_entry(cwd, &session.id),
        None => Ok(()),
    }
}

/// Checks that we can enter a directory. The remedy names the session.
pub fn check_entry(cwd: &str, session_id: &str) -> Result<(), DirectoryProblem> {
    let problem = |what: &str, first: &str| DirectoryProblem {
        message: format!("this session works in {cwd}, {what}"),
        remedy: format!(
            "{first}, or move the session with `hermesctl chat --resume {session_id} --here` in another directory"
        ),
    };
    let path = Path::new(cwd);
    if !path.is_absolute() {
        return Err(problem("which is not an absolute path", "begin another"));
    }
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(problem("which does not exist", "create it again"));
        }
        Err(error) => {
            let what = format!("which the daemon cannot see ({error})");
            return Err(problem(&what, "give the daemon access"));
        }
        Ok(facts) if !facts.is_dir() => {
            return Err(problem("which is not a directory", "make it one again"));
        }
        Ok(_) => {}
    }
    access(path, AccessFlags::X_OK).map_err(|error| {
        let what = format!("which the daemon cannot enter ({})", error.desc());
        problem(&what, "give the daemon access")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_name_a_directory() {
        assert_eq!(check_name("/srv/a b/ü"), Ok(()));
        let long = format!("/{}", "a".repeat(LONGEST));
        for name in ["", ".", "src", "../x", "~/x", "/a\0b", &long] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_missing_directory_and_a_file_are_told_apart() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name).display().to_string();
        assert_eq!(check_entry(&at(""), "s"), Ok(()));
        let missing = check_entry(&at("gone"), "s").unwrap_err();
        assert!(missing.message.contains(&at("gone")), "{missing}");
        assert!(missing.message.contains("does not exist"), "{missing}");
        assert!(missing.remedy.contains("--resume s --here"), "{missing}");
        std::fs::write(at("file"), "").unwrap();
        let file = check_entry(&at("file"), "s").unwrap_err();
        assert!(file.message.contains("not a directory"), "{file}");
    }
}
