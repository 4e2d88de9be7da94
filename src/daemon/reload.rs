//! Reloads the configuration without interrupting a turn. The log names each changed setting that needs a restart. A
//! wrong configuration changes nothing.

use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::{adapters, check, log, service};
use crate::agent::Agents;
use crate::config::{Config, ConfigError, HooksConfig, Schema};
use crate::control::{ConfigFiles, ReloadOutcome};
use crate::delivery::Outbox;
use crate::events::Bus;
use crate::inbound::Chats;
use crate::journal_ids;
use crate::platform::{Inbox, Platforms};
use crate::protocol::ReloadView;
use crate::reloadable::Reloadable;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::turn::Turns;

/// The source of the configuration, and the signal that requests a reload.
pub struct Reload {
    pub load: Box<dyn Fn() -> Result<Config, ConfigError> + Send + Sync>,
    pub hangups: Signal,
}

/// The parts of the daemon that a reload changes.
pub(super) struct Reloader {
    pub(super) started_with: Config,
    pub(super) config: Config,
    pub(super) store: Store,
    pub(super) bus: Bus,
    pub(super) platforms: Platforms,
    pub(super) chats: Chats,
    pub(super) outbox: Outbox,
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) turns: Arc<Turns>,
    pub(super) hooks: Arc<Reloadable<HooksConfig>>,
    pub(super) files: Arc<Reloadable<ConfigFiles>>,
    pub(super) tasks: TaskTracker,
    pub(super) shutdown: Shutdown,
}

/// The settings that a reload changes. All others need a restart.
const LIVE: [&str; 6] = [
    "agent.",
    "agents.",
    "chats.",
    "hooks.",
    "platforms.",
    "log.level",
];

impl Reloader {
    pub(super) async fn run(
        mut self,
        mut reload: Reload,
        mut requests: mpsc::Receiver<oneshot::Sender<ReloadOutcome>>,
    ) {
        loop {
            let mut client = None;
            tokio::select! {
                hangup = reload.hangups.recv() => if hangup.is_none() { return },
                Some(request) = requests.recv() => client = Some(request),
                () = self.shutdown.draining.cancelled() => return,
            }
            service::reloading();
            // Loading reads files and searches for programs.
            let loaded = tokio::task::block_in_place(|| (reload.load)());
            let outcome = loaded.map_err(|error| error.to_string());
            let outcome = outcome.and_then(|new| self.apply(new));
            match &outcome {
                Ok(view) => tracing::info!(
                    message_id = journal_ids::CONFIG_RELOADED,
                    changed = view.changed.len(),
                    "configuration reloaded"
                ),
                Err(error) => tracing::error!(
                    message_id = journal_ids::CONFIG_REFUSED,
                    error,
                    "configuration is wrong, nothing was changed"
                ),
            }
            let error = outcome.as_ref().err().cloned();
            if let Some(client) = client {
                // The client may have left.
                let _ = client.send(outcome);
            }
            service::reloaded(&self.platforms.all(), error.as_deref());
        }
    }

    fn apply(&mut self, new: Config) -> ReloadOutcome {
        check(&new).map_err(|error| error.to_string())?;
        let changed = self.config.changed(&new);
        let has = |beginning: &str| changed.iter().any(|key| key.starts_with(beginning));
        log::change(&new.log).map_err(|error| error.to_string())?;
        self.hooks.set(new.hooks.clone());
        self.chats.reload(&new);
        self.outbox.reload(new.chats.clone());
        if has("agent.") || has("agents.") || changed.iter().any(|key| key.ends_with(".agent")) {
            let agents = Agents::configured(&new, &self.store);
            let before = self.turns.reload(agents, new.agent.timeouts);
            self.tasks.spawn({
                let stop = self.shutdown.cut.clone();
                async move {
                    tokio::select! {
                        () = before.retire() => {}
                        () = stop.cancelled() => before.close().await,
                    }
                }
            });
        }
        let adapters = adapters(&new, &self.store, &self.bus);
        for settings in &new.platforms {
            let name = &settings.name;
            if changed
                .iter()
                .any(|key| concerns_adapter(new.schema(), key, name))
            {
                let adapter = adapters.iter().find(|a| a.name() == *name).cloned();
                tracing::info!(platform = name, "settings changed, reconnecting");
                let (inbox, tasks, stop) =
                    (&self.inbox, &self.tasks, &self.shutdown.stop_listening);
                self.platforms
                    .replace(settings, adapter, inbox, tasks, stop);
            }
        }
        self.platforms.reload_homes(&new, &self.store);
        let needs_restart = |key: &String| !LIVE.iter().any(|live| key.starts_with(live));
        for key in self
            .started_with
            .changed(&new)
            .iter()
            .filter(|key| needs_restart(key))
        {
            tracing::warn!(key, "setting changed, needs a restart");
        }
        self.files.set(new.files.clone());
        self.config = new;
        let restart = changed.iter().filter(|key| needs_restart(key));
        let restart = restart.cloned().collect();
        Ok(ReloadView { changed, restart })
    }
}

/// Whether the adapter of the platform reads this setting.
fn concerns_adapter(schema: &Schema, key: &str, platform: &str) -> bool {
    schema
        .find(key)
        .is_some_and(|setting| setting.is_of_adapter(platform))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::schema;

    #[test]
    fn an_adapter_is_replaced_for_its_own_settings_only() {
        for (key, concerns) in [
            ("platforms.telegram.token", true),
            ("platforms.telegram.enabled", true),
            ("platforms.telegram.poll", true),
            ("platforms.telegram.owner", false),
            ("platforms.telegram.home_channel", false),
            ("platforms.telegram.agent", false),
            ("platforms.slack.token", false),
            ("log.level", false),
        ] {
            assert_eq!(
                concerns_adapter(schema(), key, "telegram"),
                concerns,
                "{key}"
            );
        }
        for key in [
            "platforms.whatsapp.groups",
            "platforms.whatsapp.group_policy",
        ] {
            assert!(!concerns_adapter(schema(), key, "whatsapp"), "{key}");
        }
    }
}
