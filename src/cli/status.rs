//! `hermesctl status`.

use serde_json::json;

use super::backend::Backend;
use super::output::Output;
use super::{CliError, platforms};
use crate::clock;
use crate::config::{Config, paths};
use crate::protocol::{Call, Nothing, StatusView};

pub(super) async fn run(backend: &Backend, config: &Config, out: &Output) -> Result<(), CliError> {
    let client = match backend {
        Backend::Daemon(client) => client,
        Backend::Direct(store) => {
            let profile = paths::profile_name(&config.home);
            let in_flight = store.list_handoffs(None, true, 500).await?.len();
            out.value(&json!({"daemon": false, "home": config.home, "profile": profile, "sessions": store.session_count().await?, "handoffs_in_flight": in_flight}))?;
            out.line(format!(
                "No hermesd serves {} (profile {profile}).",
                config.home.display()
            ))?;
            out.line(format!("Handoffs in flight: {in_flight}"))?;
            let error = CliError::NoDaemon {
                message: "no daemon is running".into(),
            };
            return Err(error.after_value(out));
        }
    };
    let status: StatusView = client.call(Call::Status(Nothing {})).await?;
    out.value(&status)?;
    let up = clock::age(clock::now() - status.started_at);
    out.line(format!(
        "hermesd {} (process {}) has served {} (profile {}) for {up}.",
        status.version, status.pid, status.home, status.profile
    ))?;
    out.line(format!(
        "Agent {}; {} sessions; {} handoffs and {} turns at work; {} connections.\n",
        status.agent,
        status.sessions,
        status.handoffs_running,
        status.turns_running,
        status.connections
    ))?;
    out.table(
        &["PLATFORM", "STATE", "HOME CHANNEL", "DETAIL"],
        &platforms::rows(status.platforms),
    )
}
