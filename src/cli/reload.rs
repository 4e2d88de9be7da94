//! Invoked by `hermesctl reload`.
//!
//! Asks the daemon to read its configuration again, and prints what changed. Also explains an error by a configuration
//! file that the daemon has not read yet.

use std::path::Path;

use super::CliError;
use super::backend::{Target, find_daemon};
use super::output::{FAINT, Output};
use crate::clock;
use crate::protocol::{Call, Nothing, ReloadView, StatusView};

pub(super) async fn run(target: &Target, out: &Output) -> Result<(), CliError> {
    let (_, backend) = target.open().await?;
    let client = backend.daemon()?;
    let reloaded: ReloadView = client.call(Call::ConfigReload(Nothing {})).await?;
    out.value(&reloaded)?;
    if reloaded.changed.is_empty() {
        return out.line("The configuration is read. No setting has changed.");
    }
    out.line("The configuration is read. Changed:")?;
    for key in &reloaded.changed {
        let note = match reloaded.restart.contains(key) {
            true => out.styled(FAINT, "  (needs a restart)"),
            false => String::new(),
        };
        out.line(format!("  {key}{note}"))?;
    }
    Ok(())
}

/// The refusals that a setting may have caused.
const OF_SETTINGS: [&str; 4] = [
    "no_agent",
    "no_home_channel",
    "platform_off",
    "unknown_platform",
];

/// Adds to a refusal that a configuration file was changed after the daemon read it.
pub(super) async fn explain(target: &Target, error: CliError) -> CliError {
    let CliError::Refused {
        message,
        hint,
        kind,
    } = error
    else {
        return error;
    };
    let changed = match OF_SETTINGS.contains(&kind.as_str()) {
        true => changed_file(target).await,
        false => None,
    };
    CliError::Refused {
        message,
        hint: changed.or(hint),
        kind,
    }
}

async fn changed_file(target: &Target) -> Option<String> {
    let config = target.config().ok()?;
    let client = find_daemon(&config, target.socket_is_explicit)
        .await
        .ok()??;
    let status: StatusView = client.call(Call::Status(Nothing {})).await.ok()?;
    let file = status.unread.first()?;
    let name = Path::new(&file.path).file_name()?.to_string_lossy();
    let when = match file.changed_at {
        Some(at) => format!("was changed at {}", clock::hour(at)),
        None => "was removed".to_owned(),
    };
    Some(format!(
        "{name} {when} and has not been read since: run `hermesctl reload`"
    ))
}
