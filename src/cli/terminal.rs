//! Identifies the terminal that hermesctl runs in: the name of its device, and the names that Hermes' CLI gives it.

use std::os::unix::fs::MetadataExt;

use nix::sys::stat::{major, minor};
use nix::unistd::ttyname;

use super::CliError;
use crate::sessions::TerminalNames;

/// Programs that show several terminals name each in a variable. The order is that of Hermes' CLI.
const VARIABLES: [&str; 6] = [
    "ZELLIJ_PANE_ID",
    "TMUX_PANE",
    "KITTY_WINDOW_ID",
    "WEZTERM_PANE",
    "TERM_SESSION_ID",
    "WT_SESSION",
];

/// Hermes cuts each part of a name to this length.
const LONGEST: usize = 120;

/// The device of our terminal.
pub(super) fn tty() -> Option<String> {
    let name = ttyname(std::io::stdin())
        .or_else(|_| ttyname(std::io::stdout()))
        .or_else(|_| ttyname(std::io::stderr()));
    Some(name.ok()?.to_string_lossy().into_owned())
}

/// The current directory, for a session that begins here.
pub(super) fn directory() -> Result<String, CliError> {
    let refused = |message: String| CliError::Refused {
        message,
        hint: Some("change to another directory, and try again".to_owned()),
        kind: "no_directory".to_owned(),
    };
    let here = std::env::current_dir()
        .map_err(|error| refused(format!("the current directory cannot be used: {error}")))?;
    here.into_os_string()
        .into_string()
        .map_err(|_| refused("the name of the current directory is not UTF-8".to_owned()))
}

/// The names that Hermes' CLI gives our terminal. A program that Hermes runs has pipes instead of a terminal, so the
/// controlling terminal counts too.
pub(super) fn known_to_hermes() -> TerminalNames {
    let device = tty().or_else(controlling_terminal);
    let variables = VARIABLES.iter().filter_map(|name| {
        let value = std::env::var(name).ok()?;
        (!value.is_empty()).then(|| format!("{}-{}", name.to_lowercase(), plain(&value)))
    });
    TerminalNames {
        ids: device
            .iter()
            .map(|device| format!("tty-{}", plain(device)))
            .chain(variables)
            .collect(),
        since: device.and_then(|device| opened_at(&device)),
    }
}

/// Converts text to a part of a file name: `/dev/pts/3` becomes `dev-pts-3`.
fn plain(text: &str) -> String {
    let kept = |c: char| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') => c,
        _ => '-',
    };
    let text = text.trim().trim_matches('/');
    text.chars().map(kept).take(LONGEST).collect()
}

/// The kernel creates the device of a pseudo-terminal when it is opened.
fn opened_at(device: &str) -> Option<f64> {
    let found = std::fs::metadata(device).ok()?;
    Some(found.ctime() as f64)
}

fn controlling_terminal() -> Option<String> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in parentheses and may contain any character.
    let number: u64 = stat
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(4)?
        .parse()
        .ok()?;
    device_of(number)
}

/// The kernel has eight majors for pseudo-terminals, each with 256 devices or more.
fn device_of(number: u64) -> Option<String> {
    match (major(number), minor(number)) {
        (first @ 136..=143, minor) => Some(format!("/dev/pts/{}", (first - 136) * 256 + minor)),
        (4, minor @ 0..64) => Some(format!("/dev/tty{minor}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::makedev;

    use super::*;

    #[test]
    fn names_are_those_of_hermes() {
        assert_eq!(plain("/dev/pts/3"), "dev-pts-3");
        assert_eq!(plain("%12"), "-12");
        assert_eq!(plain(" w0t0p0:ABC-1 "), "w0t0p0-ABC-1");
        assert_eq!(plain(&"x".repeat(200)).len(), 120);
    }

    #[test]
    fn devices_are_told_from_their_numbers() {
        assert_eq!(device_of(makedev(136, 3)).as_deref(), Some("/dev/pts/3"));
        assert_eq!(device_of(makedev(137, 3)).as_deref(), Some("/dev/pts/259"));
        assert_eq!(device_of(makedev(4, 2)).as_deref(), Some("/dev/tty2"));
        assert_eq!(device_of(0), None);
    }
}
