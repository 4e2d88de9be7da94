//! Which platforms there are, how each is doing, and the supervision that connects them in the background.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Home, Platform, PlatformError};
use crate::clock;
use crate::config::settings::find;
use crate::config::{Config, PLATFORMS, PlatformConfig};
use crate::events::{Bus, Event};

const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Up,
    Connecting,
    /// Tried, failed, and will not be tried again before something changes.
    Down,
    Off,
}

impl Standing {
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Up => "up",
            Standing::Connecting => "connecting",
            Standing::Down => "down",
            Standing::Off => "off",
        }
    }
}

#[derive(Debug, Clone)]
pub struct PlatformStatus {
    pub name: String,
    pub standing: Standing,
    pub detail: Option<String>,
    pub home: Option<Home>,
    pub since: f64,
}

/// What a handoff to a platform of this name can expect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    Up,
    /// With what is known of why it is not up yet.
    Connecting(Option<String>),
    NoHome,
    /// Off or down, with the reason.
    Off(String),
    Unknown,
}

struct Entry {
    adapter: Option<Arc<dyn Platform>>,
    status: PlatformStatus,
}

/// All platforms by name. Cheap to clone.
#[derive(Clone)]
pub struct Platforms {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
    changed: Arc<Notify>,
    /// The same for any number of listeners.
    standings: watch::Sender<()>,
    bus: Bus,
}

impl Platforms {
    /// The adapters at hand, and a status for every platform that is known by name.
    pub fn new(config: &Config, adapters: Vec<Arc<dyn Platform>>, bus: Bus) -> Platforms {
        let mut entries = BTreeMap::new();
        for settings in &config.platforms {
            let adapter = adapters.iter().find(|a| a.name() == settings.name).cloned();
            let (standing, detail) = match off_reason(settings, adapter.is_some()) {
                Some(reason) => (Standing::Off, Some(reason)),
                None => (Standing::Connecting, None),
            };
            let status = PlatformStatus {
                name: settings.name.clone(),
                standing,
                detail,
                home: settings.home_channel.clone(),
                since: clock::now(),
            };
            entries.insert(
                settings.name.clone(),
                Entry {
                    adapter: adapter.filter(|_| standing != Standing::Off),
                    status,
                },
            );
        }
        Platforms {
            entries: Arc::new(Mutex::new(entries)),
            changed: Arc::default(),
            standings: watch::Sender::default(),
            bus,
        }
    }

    /// What the configuration alone says: for a client that works without a daemon.
    pub fn configured(config: &Config) -> Platforms {
        let platforms = Platforms::new(config, Vec::new(), Bus::default());
        for settings in config
            .platforms
            .iter()
            .filter(|p| off_reason(p, has_adapter(&p.name)).is_none())
        {
            platforms.set(
                &settings.name,
                Standing::Connecting,
                Some("no daemon to ask".into()),
            );
        }
        platforms
    }

    /// Connects every adapter on its own, with backoff, until it is up or cannot be.
    pub fn connect_all(&self, tracker: &TaskTracker, stop: &CancellationToken) {
        let adapters: Vec<_> =
            self.locked(|entries| entries.values().filter_map(|e| e.adapter.clone()).collect());
        for adapter in adapters {
            let (this, stop) = (self.clone(), stop.clone());
            tracker.spawn(async move {
                tokio::select! {
                    () = this.connect(adapter) => {}
                    () = stop.cancelled() => {}
                }
            });
        }
    }

    async fn connect(&self, adapter: Arc<dyn Platform>) {
        let name = adapter.name();
        let mut wait = FIRST_RETRY;
        loop {
            match adapter.connect().await {
                Ok(()) => {
                    tracing::info!(platform = name, "platform up");
                    return self.set(name, Standing::Up, None);
                }
                Err(PlatformError::Permanent(reason)) => {
                    tracing::error!(platform = name, reason, "platform down");
                    return self.set(name, Standing::Down, Some(reason));
                }
                Err(later) => {
                    let reason = later.to_string();
                    let retry_after = match later {
                        PlatformError::Transient { retry_after, .. } => retry_after,
                        _ => None,
                    };
                    tracing::warn!(platform = name, reason, "platform not up yet");
                    self.set(name, Standing::Connecting, Some(reason));
                    tokio::time::sleep(retry_after.unwrap_or(wait)).await;
                    wait = (wait * 2).min(LONGEST_RETRY);
                }
            }
        }
    }

    fn set(&self, name: &str, standing: Standing, detail: Option<String>) {
        let told = self.locked(|entries| {
            let status = &mut entries.get_mut(name)?.status;
            let changed = status.standing != standing;
            status.standing = standing;
            status.detail.clone_from(&detail);
            if changed {
                status.since = clock::now();
            }
            changed.then_some(())
        });
        if told.is_some() {
            self.bus.tell(Event::PlatformChanged {
                platform: name.to_owned(),
                state: standing.as_str(),
                detail,
            });
            self.changed.notify_one();
            self.standings.send_replace(());
        }
    }

    /// Resolves when any platform's standing changes. For one listener, the queue.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The adapter of a platform as soon as it is up. `None`: it is off or down, and waiting will not change that.
    pub async fn when_up(&self, name: &str) -> Option<Arc<dyn Platform>> {
        let mut standings = self.standings.subscribe();
        loop {
            let (standing, adapter) = self.locked(|entries| {
                let entry = entries.get(name)?;
                Some((entry.status.standing, entry.adapter.clone()))
            })?;
            match standing {
                Standing::Up => return adapter,
                Standing::Connecting => {
                    tracing::debug!(platform = name, "waiting for the platform to be up");
                    standings.changed().await.ok()?;
                }
                Standing::Down | Standing::Off => return None,
            }
        }
    }

    pub fn adapter(&self, name: &str) -> Option<Arc<dyn Platform>> {
        self.locked(|entries| entries.get(name)?.adapter.clone())
    }

    pub fn home(&self, name: &str) -> Option<Home> {
        self.locked(|entries| entries.get(name)?.status.home.clone())
    }

    pub fn all(&self) -> Vec<PlatformStatus> {
        self.locked(|entries| {
            PLATFORMS
                .iter()
                .filter_map(|name| entries.get(*name))
                .map(|e| e.status.clone())
                .collect()
        })
    }

    /// Platforms that may still come up.
    pub fn connecting(&self) -> Vec<String> {
        let all = self.all();
        all.into_iter()
            .filter(|p| p.standing == Standing::Connecting)
            .map(|p| p.name)
            .collect()
    }

    pub fn availability(&self, name: &str) -> Availability {
        self.locked(|entries| {
            let Some(Entry { status, .. }) = entries.get(name) else {
                return Availability::Unknown;
            };
            let detail = status.detail.clone();
            match status.standing {
                Standing::Off | Standing::Down => {
                    Availability::Off(detail.unwrap_or_else(|| "it is off".into()))
                }
                _ if status.home.is_none() => Availability::NoHome,
                Standing::Connecting => Availability::Connecting(detail),
                Standing::Up => Availability::Up,
            }
        })
    }

    fn locked<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Entry>) -> T) -> T {
        let mut entries = self
            .entries
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        work(&mut entries)
    }
}

/// Adapters that this build has.
fn has_adapter(name: &str) -> bool {
    name == super::local::NAME
}

fn off_reason(settings: &PlatformConfig, adapter: bool) -> Option<String> {
    let name = &settings.name;
    if !settings.enabled {
        let has_token_setting = find(&format!("platforms.{name}.token")).is_some();
        let remedy = match (&settings.token, has_token_setting) {
            (None, true) => format!(
                "it has no token and is not enabled: set platforms.{name}.token or platforms.{name}.enabled"
            ),
            (None, false) if name != super::local::NAME => {
                format!("it is not enabled: set platforms.{name}.enabled")
            }
            _ => format!("it is switched off by platforms.{name}.enabled"),
        };
        return Some(remedy);
    }
    (!adapter).then(|| {
        format!(
            "it is configured, but this version of hermesd ({}) cannot speak to {name} yet",
            crate::VERSION
        )
    })
}
