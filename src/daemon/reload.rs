//! Reading the configuration anew without dropping a turn. What cannot be exchanged while the daemon runs is named, and
//! waits for the next start; a configuration that is wrong changes nothing.

use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio_util::task::TaskTracker;

use super::{adapters, check, log, service};
use crate::agent::Agents;
use crate::config::HooksConfig;
use crate::config::{Config, ConfigError};
use crate::delivery::Outbox;
use crate::events::Bus;
use crate::inbound::Chats;
use crate::journal_ids;
use crate::platform::{Inbox, Platforms};
use crate::reloadable::Reloadable;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::turn::Turns;

/// Where the configuration comes from, and what asks for it to be read.
pub struct Reload {
    pub load: Box<dyn Fn() -> Result<Config, ConfigError> + Send + Sync>,
    pub hangups: Signal,
}

/// All that a reload reaches.
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
    pub(super) tasks: TaskTracker,
    pub(super) shutdown: Shutdown,
}

/// What can be changed while the daemon runs.
const LIVE: [&str; 6] = [
    "agent.",
    "agents.",
    "chats.",
    "hooks.",
    "platforms.",
    "log.level",
];

/// Of a platform, what its adapter has nothing to do with.
const NOT_THE_ADAPTERS: [&str; 23] = [
    "home_channel",
    "home_channel_name",
    "home_channel_thread",
    "home_channel_user",
    "agent",
    "allowed_users",
    "allowed_group_users",
    "allowed_chats",
    "allow_everyone",
    "owner",
    "strangers",
    "trusted",
    "dm_policy",
    "groups",
    "group_policy",
    "only_chats",
    "ignored_chats",
    "require_mention",
    "free_chats",
    "thread_require_mention",
    "ignore_mentions_of_others",
    "allow_bots",
    "allowed_roles",
];

impl Reloader {
    pub(super) async fn run(mut self, mut reload: Reload) {
        loop {
            tokio::select! {
                hangup = reload.hangups.recv() => if hangup.is_none() { return },
                () = self.shutdown.draining.cancelled() => return,
            }
            service::reloading();
            // Files are read, and programs looked for.
            let loaded = tokio::task::block_in_place(|| (reload.load)());
            let outcome = loaded.map_err(|error| error.to_string());
            let outcome = outcome.and_then(|new| self.apply(new));
            match &outcome {
                Ok(changed) => tracing::info!(
                    message_id = journal_ids::CONFIG_RELOADED,
                    changed,
                    "configuration read anew"
                ),
                Err(error) => tracing::error!(
                    message_id = journal_ids::CONFIG_REFUSED,
                    error,
                    "the configuration is wrong; nothing was changed"
                ),
            }
            service::reloaded(&self.platforms.all(), outcome.err().as_deref());
        }
    }

    /// Returns how many settings have changed.
    fn apply(&mut self, new: Config) -> Result<usize, String> {
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
            if changed.iter().any(|key| concerns_adapter(key, name)) {
                let adapter = adapters.iter().find(|a| a.name() == *name).cloned();
                tracing::info!(platform = name, "connected anew: its settings have changed");
                let (inbox, tasks, stop) = (&self.inbox, &self.tasks, &self.shutdown.deaf);
                self.platforms
                    .replace(settings, adapter, inbox, tasks, stop);
            }
        }
        self.platforms.reload_homes(&new, &self.store);
        for key in self.started_with.changed(&new) {
            if !LIVE.iter().any(|live| key.starts_with(live)) {
                tracing::warn!(
                    key,
                    "this setting has changed, and waits for the next start"
                );
            }
        }
        self.config = new;
        Ok(changed.len())
    }
}

fn concerns_adapter(key: &str, platform: &str) -> bool {
    let field = key
        .strip_prefix("platforms.")
        .and_then(|rest| rest.strip_prefix(platform)?.strip_prefix('.'));
    field.is_some_and(|field| !NOT_THE_ADAPTERS.contains(&field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_is_replaced_for_its_own_settings_only() {
        assert!(concerns_adapter("platforms.telegram.token", "telegram"));
        assert!(concerns_adapter("platforms.telegram.enabled", "telegram"));
        assert!(!concerns_adapter("platforms.telegram.owner", "telegram"));
        assert!(!concerns_adapter("platforms.slack.token", "telegram"));
        assert!(!concerns_adapter("log.level", "telegram"));
    }
}
