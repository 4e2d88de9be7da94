//! Holds all platforms with their states, and supervises their adapters: connects, listens and reconnects in the
//! background.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::list::{has_adapter, no_adapter};
use super::{Inbox, ListenContext, NAMES, Platform, PlatformError, RateLimited};
use crate::clock;
use crate::config::{Config, PlatformConfig};
use crate::domain::HomeChannel;
use crate::events::{Bus, Event};
use crate::journal_ids;
use crate::metrics::Metrics;
use crate::panic_guard::catch_panic;
use crate::store::Store;

const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The beginning of the reason of a platform that nobody has set up.
pub const NOT_SET_UP: &str = "not set up yet";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    Up,
    /// It was up and fails now. The registry retries.
    Degraded,
    Connecting,
    /// It failed permanently. The registry does not retry before a reload replaces the adapter.
    Down,
    Off,
}

impl ConnectionState {
    pub fn as_str(self) -> &'static str {
        match self {
            ConnectionState::Up => "up",
            ConnectionState::Degraded => "degraded",
            ConnectionState::Connecting => "connecting",
            ConnectionState::Down => "down",
            ConnectionState::Off => "off",
        }
    }
}

#[derive(Debug, Clone)]
pub struct PlatformStatus {
    pub name: String,
    pub state: ConnectionState,
    pub detail: Option<String>,
    pub home: Option<HomeChannel>,
    /// The id of the person who owns the bot there.
    pub owner: Option<String>,
    /// Whether the configuration names it.
    pub configured: bool,
    pub since: f64,
}

/// Whether a platform can receive a handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    Up,
    /// With the reason why it is not up yet, if it is known.
    Connecting(Option<String>),
    NoHome,
    /// Off or down, with the reason.
    Off(String),
    Unknown,
}

struct Entry {
    adapter: Option<Arc<dyn Platform>>,
    status: PlatformStatus,
    /// Ends the supervision of this adapter.
    stop: CancellationToken,
}

impl Entry {
    fn new(
        settings: &PlatformConfig,
        adapter: Option<Arc<dyn Platform>>,
        metrics: &Arc<Metrics>,
    ) -> Entry {
        let (state, detail) = match off_reason(settings, adapter.is_some()) {
            Some(reason) => (ConnectionState::Off, Some(reason)),
            None => (ConnectionState::Connecting, None),
        };
        Entry {
            adapter: adapter
                .filter(|_| state != ConnectionState::Off)
                .map(|adapter| Arc::new(RateLimited::new(adapter, metrics.clone())) as _),
            status: PlatformStatus {
                name: settings.name.clone(),
                state,
                detail,
                home: settings.home_channel.clone(),
                owner: settings.access.owner().map(str::to_owned),
                configured: settings.enabled || settings.is_configured(),
                since: clock::now(),
            },
            stop: CancellationToken::new(),
        }
    }
}

/// All platforms by name. Cheap to clone.
#[derive(Clone)]
pub struct Platforms {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
    changed: Arc<Notify>,
    /// The same for any number of listeners.
    states_changed: watch::Sender<()>,
    bus: Bus,
    metrics: Arc<Metrics>,
}

impl Platforms {
    /// Has a status for every platform of the configuration, and the given adapters.
    pub fn new(
        config: &Config,
        adapters: Vec<Arc<dyn Platform>>,
        bus: Bus,
        metrics: Arc<Metrics>,
    ) -> Platforms {
        let entry = |settings: &PlatformConfig| {
            let adapter = adapters.iter().find(|a| a.name() == settings.name);
            (
                settings.name.clone(),
                Entry::new(settings, adapter.cloned(), &metrics),
            )
        };
        let entries = config.platforms.iter().map(entry).collect();
        Platforms {
            entries: Arc::new(Mutex::new(entries)),
            changed: Arc::default(),
            states_changed: watch::Sender::default(),
            bus,
            metrics,
        }
    }

    /// The platforms as configured, for a client that works without a daemon.
    pub fn configured(config: &Config, store: &Store) -> Platforms {
        let platforms = Platforms::new(config, Vec::new(), Bus::default(), Arc::default());
        platforms.adopt_homes(config, store);
        for settings in config
            .platforms
            .iter()
            .filter(|p| off_reason(p, has_adapter(&p.name)).is_none())
        {
            platforms.set(
                &settings.name,
                ConnectionState::Connecting,
                Some("no daemon to ask".into()),
            );
        }
        platforms
    }

    /// Starts the supervision of every adapter. It ends with `stop`, or when the adapter fails permanently.
    pub fn connect_all(
        &self,
        inbox: &Arc<dyn Inbox>,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let names: Vec<String> = self.locked(|entries| entries.keys().cloned().collect());
        for name in names {
            self.begin(&name, inbox, tracker, stop);
        }
    }

    /// Starts the supervision of a platform, if it has an adapter.
    fn begin(
        &self,
        name: &str,
        inbox: &Arc<dyn Inbox>,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let found = self.locked(|entries| {
            let entry = entries.get(name)?;
            Some((entry.adapter.clone()?, entry.stop.clone()))
        });
        let Some((adapter, replaced)) = found else {
            return;
        };
        let (this, stop, inbox) = (self.clone(), stop.clone(), inbox.clone());
        tracker.spawn(async move {
            let span = tracing::error_span!("adapter", platform = adapter.name());
            tokio::select! {
                () = this.supervise(adapter, inbox).instrument(span) => {}
                () = stop.cancelled() => {}
                () = replaced.cancelled() => {}
            }
        });
    }

    /// Replaces the adapter of a platform, or removes it. Calls in progress of the old adapter continue.
    pub fn replace(
        &self,
        settings: &PlatformConfig,
        adapter: Option<Arc<dyn Platform>>,
        inbox: &Arc<dyn Inbox>,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let entry = Entry::new(settings, adapter, &self.metrics);
        let (state, detail) = (entry.status.state.as_str(), entry.status.detail.clone());
        let before = self.locked(|entries| entries.insert(settings.name.clone(), entry));
        if let Some(before) = before {
            before.stop.cancel();
        }
        self.bus.publish(Event::PlatformChanged {
            platform: settings.name.clone(),
            state,
            detail,
        });
        self.changed.notify_one();
        self.states_changed.send_replace(());
        self.begin(&settings.name, inbox, tracker, stop);
    }

    async fn supervise(&self, adapter: Arc<dyn Platform>, inbox: Arc<dyn Inbox>) {
        let name = adapter.name();
        let this = self.clone();
        let context = ListenContext {
            inbox,
            alive: Box::new(move || this.alive(name)),
        };
        let mut wait = FIRST_RETRY;
        loop {
            let begun = Instant::now();
            // A panic in an adapter counts as a transient failure of that adapter.
            let error = match catch_panic(self.connect_and_listen(adapter.as_ref(), &context)).await
            {
                Ok(error) => error,
                Err(panicked) => PlatformError::transient(panicked.to_string()),
            };
            let retry_after = match error {
                PlatformError::Permanent(reason) | PlatformError::Gone(reason) => {
                    tracing::error!(
                        message_id = journal_ids::PLATFORM_DOWN,
                        platform = name,
                        reason,
                        "platform down"
                    );
                    return self.set(name, ConnectionState::Down, Some(reason));
                }
                PlatformError::Transient {
                    reason,
                    retry_after,
                    ..
                } => {
                    self.failing(name, reason);
                    retry_after
                }
                PlatformError::Storage(reason)
                | PlatformError::Unauthorized(reason)
                | PlatformError::WindowClosed(reason) => {
                    self.failing(name, reason);
                    None
                }
            };
            // A connection that worked for a while is retried soon.
            if begun.elapsed() > LONGEST_RETRY {
                wait = FIRST_RETRY;
            }
            // With jitter, so that daemons on the same network do not all reconnect at once.
            let jitter = Duration::from_millis(fastrand::u64(0..=wait.as_millis() as u64 / 4));
            tokio::time::sleep(retry_after.unwrap_or(wait + jitter)).await;
            wait = (wait * 2).min(LONGEST_RETRY);
        }
    }

    /// Returns the error that ended the connection.
    async fn connect_and_listen(
        &self,
        adapter: &dyn Platform,
        context: &ListenContext,
    ) -> PlatformError {
        if let Err(error) = adapter.connect().await {
            return error;
        }
        // After a failure, only a received answer shows that the platform works again.
        if self.state(adapter.name()) != Some(ConnectionState::Degraded) {
            self.alive(adapter.name());
        }
        adapter.listen(context).await
    }

    fn failing(&self, name: &str, reason: String) {
        tracing::warn!(
            message_id = journal_ids::PLATFORM_DEGRADED,
            platform = name,
            reason,
            "platform degraded"
        );
        let state = match self.state(name) {
            Some(ConnectionState::Up | ConnectionState::Degraded) => ConnectionState::Degraded,
            _ => ConnectionState::Connecting,
        };
        self.set(name, state, Some(reason));
    }

    /// Sets the state to up, because the platform answers.
    pub(super) fn alive(&self, name: &str) {
        if self.state(name) != Some(ConnectionState::Up) {
            tracing::info!(
                message_id = journal_ids::PLATFORM_UP,
                platform = name,
                "platform up"
            );
            self.set(name, ConnectionState::Up, None);
        }
    }

    fn state(&self, name: &str) -> Option<ConnectionState> {
        self.locked(|entries| Some(entries.get(name)?.status.state))
    }

    fn set(&self, name: &str, state: ConnectionState, detail: Option<String>) {
        let news = self.locked(|entries| {
            let status = &mut entries.get_mut(name)?.status;
            let changed = status.state != state;
            let news = changed || status.detail != detail;
            status.state = state;
            status.detail.clone_from(&detail);
            if changed {
                status.since = clock::now();
            }
            news.then_some(())
        });
        if news.is_some() {
            self.bus.publish(Event::PlatformChanged {
                platform: name.to_owned(),
                state: state.as_str(),
                detail,
            });
            self.changed.notify_one();
            self.states_changed.send_replace(());
        }
    }

    /// Resolves when any platform's state changes. For one listener, the queue.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until a platform is up and returns its adapter. `None`: it is off or down.
    pub async fn when_up(&self, name: &str) -> Option<Arc<dyn Platform>> {
        let mut states_changed = self.states_changed.subscribe();
        loop {
            let (state, adapter) = self.locked(|entries| {
                let entry = entries.get(name)?;
                Some((entry.status.state, entry.adapter.clone()))
            })?;
            match state {
                ConnectionState::Up | ConnectionState::Degraded => return adapter,
                ConnectionState::Connecting => {
                    tracing::debug!(platform = name, "waiting for the platform to be up");
                    states_changed.changed().await.ok()?;
                }
                ConnectionState::Down | ConnectionState::Off => return None,
            }
        }
    }

    pub fn adapter(&self, name: &str) -> Option<Arc<dyn Platform>> {
        self.locked(|entries| entries.get(name)?.adapter.clone())
    }

    pub fn home(&self, name: &str) -> Option<HomeChannel> {
        self.locked(|entries| entries.get(name)?.status.home.clone())
    }

    /// Uses the homes that people have chosen instead of those that are configured.
    pub fn adopt_homes(&self, config: &Config, store: &Store) {
        for settings in &config.platforms {
            let configured = settings.home_channel.as_ref().map(|h| h.chat_id.as_str());
            match store.chosen_home(&settings.name, configured) {
                Ok(Some(home)) => self.set_home(&settings.name, home),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, platform = settings.name, "chosen home channel not read")
                }
            }
        }
    }

    /// Uses the homes and owners of this configuration, and the homes that people have chosen.
    pub fn reload_homes(&self, config: &Config, store: &Store) {
        self.locked(|entries| {
            for settings in &config.platforms {
                if let Some(entry) = entries.get_mut(&settings.name) {
                    entry.status.home.clone_from(&settings.home_channel);
                    entry.status.owner = settings.access.owner().map(str::to_owned);
                }
            }
        });
        self.adopt_homes(config, store);
    }

    /// Sends handoffs to this platform there from now on.
    pub fn set_home(&self, name: &str, home: HomeChannel) {
        self.locked(|entries| {
            if let Some(entry) = entries.get_mut(name) {
                entry.status.home = Some(home);
            }
        });
        self.changed.notify_one();
    }

    pub fn all(&self) -> Vec<PlatformStatus> {
        self.locked(|entries| {
            NAMES
                .iter()
                .filter_map(|name| entries.get(*name))
                .map(|e| e.status.clone())
                .collect()
        })
    }

    /// The platforms that are connecting.
    pub fn connecting(&self) -> Vec<String> {
        let all = self.all();
        all.into_iter()
            .filter(|p| p.state == ConnectionState::Connecting)
            .map(|p| p.name)
            .collect()
    }

    pub fn availability(&self, name: &str) -> Availability {
        self.locked(|entries| {
            let Some(Entry { status, .. }) = entries.get(name) else {
                return Availability::Unknown;
            };
            let detail = status.detail.clone();
            match status.state {
                ConnectionState::Off | ConnectionState::Down => {
                    Availability::Off(detail.unwrap_or_else(|| "it is off".into()))
                }
                _ if status.home.is_none() => Availability::NoHome,
                ConnectionState::Connecting => Availability::Connecting(detail),
                // A degraded platform may still accept a handoff.
                ConnectionState::Up | ConnectionState::Degraded => Availability::Up,
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

/// Why a platform is off. `is_built`: an adapter was built from these settings.
fn off_reason(settings: &PlatformConfig, is_built: bool) -> Option<String> {
    let name = &settings.name;
    if let Some(note) = settings.placeholder_note() {
        return Some(note);
    }
    if settings.enabled && is_built {
        return None;
    }
    // A test may pass an adapter that this build does not have.
    if !is_built && !has_adapter(name) {
        return Some(match settings.enabled {
            true => format!("it is configured, but {}", no_adapter(name)),
            false => no_adapter(name),
        });
    }
    Some(match settings.enabled {
        false if settings.is_switched() => {
            format!("it is switched off by platforms.{name}.enabled")
        }
        false if settings.has_credentials() => {
            format!("it is not enabled: set platforms.{name}.enabled")
        }
        true if settings.has_credentials() => {
            format!("its settings cannot be used: see the log, and platforms.{name}")
        }
        _ => match settings.missing_credentials() {
            missing if settings.is_configured() => format!(
                "{} is missing (run `hermesctl setup {name}`)",
                missing.join(" and ")
            ),
            _ => format!("{NOT_SET_UP}. Run `hermesctl setup {name}` (about two minutes)"),
        },
    })
}
