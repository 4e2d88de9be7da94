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
    after_help = "It prints the command of journalctl, then runs it. With --json it adds --output=json.\n\nExamples:\n  hermesctl logs --session \"Fix the parser\"\n  hermesctl logs --handoff 7 --since 1h\n  hermesctl logs --platform telegram --follow"
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
    /// Follow new lines until interrupted.
    #[arg(long, short)]
    pub follow: bool,
    /// Only newer lines: an age such as 30s, 5m or 1h, or a time in the format of journalctl.
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Read the log of the user service [default: unless you are root, or only the system service is there].
    #[arg(long, conflicts_with = "system")]
    pub user: bool,
    /// Read the log of the system service.
    #[arg(long)]
    pub system: bool,
    /// The name of the service [default: hermesd.service, or hermesd@NAME.service for a named profile].
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,
    /// Only print the command.
    #[arg(long)]
    pub print_command: bool,
}

/// Replaces this process with journalctl. Returns only if that fails.
pub(super) async fn run(target: &Target, out: &Output, wish: LogsArgs) -> Result<(), CliError> {
    // Without a session to resolve, this needs neither a daemon nor a database.
    let (config, session) = match &wish.session {
        None => (target.config()?, None),
        Some(name) => {
            let (config, backend) = target.open().await?;
            // Lines name a session only by its id.
            let id = backend.session(name).await?.id;
            (config, Some(id))
        }
    };
    let is_root = nix::unistd::geteuid().is_root();
    let of_system = wish.system || (!wish.user && (is_root || has_only_system_daemon(&config)));
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
            message: "journalctl is not on PATH".into(),
            hint: Some(
                "without systemd, hermesd writes its log to stderr: see log.target in hermesd.toml(5)"
                    .into(),
            ),
            kind: "no_journalctl".into(),
        },
        _ => CliError::Other(format!("{PROGRAM}: {error}")),
    })
}

/// The command as you would type it, with quotes only where a shell needs them.
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

/// Whether no daemon has recorded a socket in this home, and the system has a daemon.
fn has_only_system_daemon(config: &Config) -> bool {
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
