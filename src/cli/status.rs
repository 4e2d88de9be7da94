//! Invoked by `hermesctl status`.
//!
//! Prints the daemon, its work and its platforms.

use serde_json::json;

use super::backend::{Status, Target};
use super::output::Output;
use super::{CliError, platforms};
use crate::clock;
use crate::config::{Config, paths};
use crate::protocol::StatusView;

pub(super) async fn run(target: &Target, out: &Output) -> Result<(), CliError> {
    let (config, backend) = target.open().await?;
    match backend.status().await? {
        Status::Served(status) => served(out, status),
        Status::Unserved {
            sessions,
            handoffs_in_flight,
        } => unserved(&config, out, sessions, handoffs_in_flight),
    }
}

fn unserved(
    config: &Config,
    out: &Output,
    sessions: i64,
    in_flight: usize,
) -> Result<(), CliError> {
    let profile = paths::profile_name(&config.home);
    out.value(&json!({"daemon": false, "home": config.home, "profile": profile, "sessions": sessions, "handoffs_in_flight": in_flight}))?;
    out.line(format!(
        "No hermesd serves {} (profile {profile}).",
        config.home.display()
    ))?;
    out.line(format!("Handoffs in flight: {in_flight}"))?;
    let error = CliError::NoDaemon {
        message: "no daemon is running".into(),
    };
    Err(error.after_value(out))
}

fn served(out: &Output, status: StatusView) -> Result<(), CliError> {
    out.value(&status)?;
    let up = clock::age(clock::now() - status.started_at);
    out.line(format!(
        "hermesd {} (process {}) has served {} (profile {}) for {up}.",
        status.version, status.pid, status.home, status.profile
    ))?;
    out.line(format!(
        "Agent {}, {} sessions, {} handoffs and {} turns in progress, {} connections.\n",
        status.agent,
        status.sessions,
        status.handoffs_running,
        status.turns_running,
        status.connections
    ))?;
    platforms::show(out, status.platforms)
}
