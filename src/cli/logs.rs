//! Invoked by `hermesctl logs`.
//!
//! Runs journalctl for the lines about a session, a handoff or a platform. It prints the command, so that you can
//! change it and run it yourself.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::CliError;
use super::backend::Target;
use super::output::{Output, to_stderr};
use crate::config::settings::parse_duration;
use crate::config::{Config, paths};
use crate::home_files::recorded_socket;

const PROGRAM: &str = "journalctl";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Runs journalctl, and shows how. With --json it prints what journalctl does with --output=json.\n\nExamples:\n  hermesctl logs --session \"Fix the parser\"\n  hermesctl logs --handoff 7 --since 1h\n  hermesctl logs --platform telegram --follow"
)]
pub struct LogsArgs {
    /// Only lines about this session: id, beginning of an id, or title.
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// Only lines about this handoff.
    #[arg(long, value_name = "ID")]
    pub handoff: Option<i64>,
    /// Only lines about this platform.
    #[arg(long, value_name = "NAME")]
    pub platform: Option<String>,
    /// Go on with what is written from now on, until interrupted.
    #[arg(long, short)]
    pub follow: bool,
    /// Only what is younger: a time ago such as 30s, 5m or 1h, or whatever journalctl takes.
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// The daemon is a service of this user [default: unless root asks, or only a system's daemon is there].
    #[arg(long, conflicts_with = "system")]
    pub user: bool,
    /// The daemon is a service of the system.
    #[arg(long)]
    pub system: bool,
    /// The name of the service [default: hermesd.service, for a named profile hermesd@NAME.service].
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,
    /// Only print the command.
    #[arg(long)]
    pub print_command: bool,
}

/// Becomes journalctl; returns only when it does not.
pub(super) async fn run(target: &Target, out: &Output, wish: LogsArgs) -> Result<(), CliError> {
    // The journal can be read when there is neither a daemon nor a database, unless a session has to be found.
    let (config, session) = match &wish.session {
        None => (target.config()?, None),
        Some(name) => {
            let (config, backend) = target.open().await?;
            // Lines have the id of a session and no other name of it.
            let id = backend.session(name).await?.id;
            (config, Some(id))
        }
    };
    let is_root = nix::unistd::geteuid().is_root();
    let of_system = wish.system || (!wish.user && (is_root || only_systems(&config)));
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
    let arguments = arguments(&wish, unit, session.as_deref(), out.is_json());
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
