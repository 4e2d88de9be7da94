//! `hermesctl logs`: the journal's lines about a session, a handoff or a platform. All of it is journalctl's work, and the
//! command is shown, so that whoever wants more knows where to begin.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::CliError;
use super::args::LogsArgs;
use super::backend::Backend;
use super::output::{Output, to_stderr};
use crate::config::settings::parse_duration;
use crate::config::{Config, paths};
use crate::home_files::recorded_socket;

const PROGRAM: &str = "journalctl";

/// The id of the session that is meant; lines know no other name.
pub(super) async fn session(
    backend: &dyn Backend,
    wish: &LogsArgs,
) -> Result<Option<String>, CliError> {
    match &wish.session {
        Some(name) => Ok(Some(backend.session(name).await?.id)),
        None => Ok(None),
    }
}

/// Becomes journalctl; returns only when it does not.
pub(super) fn run(
    config: &Config,
    out: &Output,
    wish: &LogsArgs,
    session: Option<String>,
) -> Result<(), CliError> {
    let is_root = nix::unistd::geteuid().is_root();
    let of_system = wish.system || (!wish.user && (is_root || only_systems(config)));
    let unit = match of_system {
        true => format!(
            "--unit={}",
            wish.unit.as_deref().unwrap_or("hermesd.service")
        ),
        false => {
            let own = || format!("{}.service", paths::unit_of(&config.home));
            format!("--user-unit={}", wish.unit.clone().unwrap_or_else(own))
        }
    };
    let arguments = arguments(wish, unit, session.as_deref(), out.is_json());
    let shown = as_typed(&arguments)?;
    if wish.print_command {
        return out.text(&shown);
    }
    to_stderr(&shown);
    let error = Command::new(PROGRAM).args(&arguments).exec();
    Err(match error.kind() {
        std::io::ErrorKind::NotFound => CliError::Refused {
            message: "there is no journalctl on the path".into(),
            hint: Some(
                "without systemd hermesd writes its log to stderr; see log.target in hermesd.toml"
                    .into(),
            ),
            kind: "no_journalctl".into(),
        },
        _ => CliError::Other(format!("{PROGRAM}: {error}")),
    })
}

/// The command as somebody would type it, with quotes only where a shell needs them.
fn as_typed(arguments: &[String]) -> Result<String, CliError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.:/@+,".contains(c);
    let mut typed = PROGRAM.to_owned();
    for argument in arguments {
        typed.push(' ');
        if argument.chars().all(plain) {
            typed.push_str(argument);
        } else {
            let quoted = shlex::try_quote(argument);
            typed.push_str(&quoted.map_err(|e| CliError::Other(e.to_string()))?);
        }
    }
    Ok(typed)
}

/// Whether this home has no daemon of its own, but the system has one.
fn only_systems(config: &Config) -> bool {
    recorded_socket(&config.home).is_none() && Path::new(paths::SYSTEM_SOCKET).exists()
}

fn arguments(wish: &LogsArgs, unit: String, session: Option<&str>, json: bool) -> Vec<String> {
    let mut arguments = vec![unit];
    if wish.follow {
        arguments.push("--follow".into());
    }
    if let Some(since) = &wish.since {
        let ago = parse_duration(since).map(|ago| format!("-{}s", ago.as_secs()));
        arguments.push(format!("--since={}", ago.unwrap_or_else(|| since.clone())));
    }
    if json {
        arguments.push("--output=json".into());
    }
    let fields = [
        ("SESSION", session.map(str::to_owned)),
        ("HANDOFF", wish.handoff.map(|id| id.to_string())),
        ("PLATFORM", wish.platform.clone()),
    ];
    for (name, value) in fields {
        arguments.extend(value.map(|value| format!("HERMES_{name}={value}")));
    }
    arguments
}
