//! Runs the daemon: starts it, serves, drains, stops.

pub mod args;
mod clean_stop;
mod database;
mod diagnose;
mod error;
mod gateway;
mod gateway_watch;
mod home_lock;
mod journald;
mod log;
mod reload;
mod service;
mod setup_views;
mod stop;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use diagnose::diagnose;
pub use error::DaemonError;
pub use home_lock::HomeLock;
pub use log::{log_end, start as start_log};
pub use reload::Reload;
pub use stop::Stopped;

use crate::agent::Agents;
use crate::clock;
use crate::config::{Config, ConfigError, PlatformConfig};
use crate::control::{
    self, ControlContext, Limits, PeerPolicy, ReloadHandle, ReloadOutcome, RequestBudget, listener,
};
use crate::delivery::Outbox;
use crate::events::Bus;
use crate::handoff::Context;
use crate::handoff::queue::{self, Queue};
use crate::hooks;
use crate::inbound::Chats;
use crate::journal_ids;
use crate::metrics::{Metrics, http};
use crate::platform::{self, AdapterContext, Inbox, Platform, Platforms, local};
use crate::process_identity::Identity;
use crate::reloadable::Reloadable;
use crate::shutdown::Shutdown;
use crate::store::watch;
use crate::store::{KEPT_FOR, Store};
use crate::terminal::Terminals;
use crate::turn::Turns;
use reload::Reloader;

/// All parts of the daemon, before they run. Tests build one with their own adapters and agents.
pub struct Daemon {
    config: Config,
    store: Store,
    control: Arc<ControlContext>,
    queue: Queue,
    chats: Chats,
    outbox: Outbox,
    terminals: Terminals,
    platforms: Platforms,
    shutdown: Shutdown,
    reload: Option<Reload>,
    reload_requests: mpsc::Receiver<oneshot::Sender<ReloadOutcome>>,
    metrics: Option<TcpListener>,
}

impl Daemon {
    /// Builds the parts, with the configured adapters and agents. Nothing runs yet.
    pub fn assemble(config: Config, store: Store) -> Daemon {
        let bus = Bus::default();
        let adapters = adapters(&config, &store, &bus);
        let agents = Agents::configured(&config, &store);
        Self::with(config, store, bus, adapters, agents)
    }

    pub fn with(
        mut config: Config,
        store: Store,
        bus: Bus,
        adapters: Vec<Arc<dyn Platform>>,
        agents: Agents,
    ) -> Daemon {
        config.keys.slack_workspace = store.keys_name_workspaces().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read whether keys of Slack chats name the workspace, assuming that they do not");
            false
        });
        let started_at = clock::now();
        let metrics = Arc::new(Metrics::new(store.meter(), started_at, platform::NAMES));
        let platforms = Platforms::new(&config, adapters, bus.clone(), metrics.clone());
        platforms.adopt_homes(&config, &store);
        let turns = Arc::new(Turns::new(
            store.clone(),
            agents,
            config.agent.timeouts,
            bus.clone(),
            metrics.clone(),
        ));
        let shutdown = Shutdown::default();
        let outbox = Outbox::new(
            &config,
            store.clone(),
            platforms.clone(),
            metrics.clone(),
            shutdown.clone(),
        );
        let chats = Chats::new(
            &config,
            store.clone(),
            platforms.clone(),
            turns.clone(),
            outbox.clone(),
            bus.clone(),
            shutdown.clone(),
        );
        let terminals = Terminals::new(
            store.clone(),
            turns.clone(),
            Arc::new(chats.clone()),
            bus.clone(),
            shutdown.clone(),
        );
        let handle = queue::Handle::default();
        let context = Arc::new(Context {
            store: store.clone(),
            platforms: platforms.clone(),
            turns: turns.clone(),
            outbox: outbox.clone(),
            chat_queue: Arc::new(chats.clone()),
            bus: bus.clone(),
            metrics: metrics.clone(),
            keys: config.keys.clone(),
            home: config.home.clone(),
            shutdown: shutdown.clone(),
        });
        let watchdog = service::watchdog();
        let queue = Queue::new(
            context,
            config.handoff.clone(),
            Identity::mine(),
            handle.clone(),
            watchdog,
            Box::new(service::progress(watchdog)),
        );
        let (requests, reload_requests) = mpsc::channel(1);
        let control = Arc::new(ControlContext {
            reload: ReloadHandle {
                requests,
                files: Arc::new(Reloadable::new(config.files.clone())),
            },
            store: store.for_clients(),
            platforms: platforms.clone(),
            turns,
            chats: chats.clone(),
            terminals: terminals.clone(),
            queue: handle,
            bus,
            metrics,
            home: config.home.display().to_string(),
            local_home: config
                .platform(local::NAME)
                .and_then(|p| p.home_channel.clone())
                .map_or_else(|| "home".into(), |h| h.chat_id),
            started_at,
            draining: shutdown.draining.clone(),
            connections: 0.into(),
            limits: Limits {
                connections: config.control.max_connections,
                idle: config.control.idle_timeout,
                write: config.control.write_timeout,
            },
            budget: RequestBudget::of_all_connections(),
        });
        Daemon {
            config,
            store,
            control,
            queue,
            chats,
            outbox,
            terminals,
            platforms,
            shutdown,
            reload: None,
            reload_requests,
            metrics: None,
        }
    }

    /// Enables reloads of the configuration.
    pub fn reloading(mut self, reload: Reload) -> Daemon {
        self.reload = Some(reload);
        self
    }

    /// Binds the other listeners. Call it before the control socket exists, so that a client of that socket finds all
    /// of them listening.
    pub async fn listening(mut self) -> Daemon {
        if let Some(address) = self.config.metrics_listen {
            match http::listen(address).await {
                Ok(listener) => self.metrics = Some(listener),
                // The daemon serves chats without metrics, too.
                Err(reason) => tracing::error!(reason, "metrics are not available over HTTP"),
            }
        }
        self
    }

    /// Serves until `stop` begins, then drains. The caller binds the listener before the daemon reports that it is
    /// ready.
    pub async fn serve(
        self,
        listener: interprocess::local_socket::tokio::Listener,
        peer_policy: PeerPolicy,
        stop: Shutdown,
    ) -> Result<Stopped, DaemonError> {
        let Daemon {
            config,
            store,
            control,
            queue,
            chats,
            outbox,
            terminals,
            platforms,
            shutdown,
            reload,
            reload_requests,
            metrics,
        } = self;
        let Shutdown {
            draining,
            stop_listening,
            ..
        } = shutdown.clone();
        // The clocks of file systems may be behind ours.
        let started = SystemTime::now() - Duration::from_millis(100);
        let tasks = TaskTracker::new();
        let control_stop = CancellationToken::new();
        tasks.spawn(control::serve(
            listener,
            control.clone(),
            peer_policy,
            control_stop.clone(),
        ));
        if config.handoff.watch {
            let queue = control.queue.clone();
            tasks.spawn(watch::run(
                store.clone(),
                move || queue.wake_foreign(),
                draining.clone(),
            ));
        }
        let hooks = Arc::new(Reloadable::new(config.hooks.clone()));
        // Hooks start first and end last, so that they receive all events.
        tasks.spawn(hooks::run(
            hooks.clone(),
            control.bus.listen_for_hooks(),
            control_stop.clone(),
        ));
        if let Some(listener) = metrics {
            let control = control.clone();
            let text = move || std::future::ready(control.metrics_text());
            let hosts = config.metrics_hosts.clone();
            tasks.spawn(http::serve(listener, hosts, text, control_stop.clone()));
        }
        let mut queue = tokio::spawn(queue.run());
        service::ready(&config.home);
        let inbox: Arc<dyn Inbox> = Arc::new(chats.clone());
        // Platforms stay connected during a drain, because a turn in progress may wait for an answer, or be stopped.
        platforms.connect_all(&inbox, &tasks, &stop_listening);
        chats.recover();
        terminals.recover();
        if let Some(reload) = reload {
            let reloader = Reloader {
                started_with: config.clone(),
                config: config.clone(),
                store: store.clone(),
                bus: control.bus.clone(),
                platforms: platforms.clone(),
                chats: chats.clone(),
                outbox: outbox.clone(),
                inbox,
                turns: control.turns.clone(),
                hooks,
                files: control.reload.files.clone(),
                tasks: tasks.clone(),
                shutdown: shutdown.clone(),
            };
            tasks.spawn(reloader.run(reload, reload_requests));
        }
        tasks.spawn(prune(store.clone(), draining.clone()));
        tasks.spawn(outbox.tidy_files(started, draining.clone()));
        tasks.spawn(service::publish_status(
            platforms,
            control.bus.listen(),
            draining,
        ));
        tasks.close();

        // The queue ends by itself only if it has failed.
        let failed = tokio::select! {
            () = stop.draining.cancelled() => None,
            ended = &mut queue => Some(error::queue_end(ended)),
        };
        tracing::info!(message_id = journal_ids::STOPPING, "stopping");
        service::stopping(config.drain_timeout);
        let deadline = Instant::now() + config.drain_timeout;
        match stop.yielding.is_cancelled() {
            true => shutdown.yield_home(),
            false => shutdown.begin(),
        }
        let runs = failed.is_none();
        let queue = async {
            match runs {
                true => error::queue_end(queue.await),
                false => Ok(()),
            }
        };
        let work = async { tokio::join!(queue, terminals.finish_turns(), chats.drain()).0 };
        tokio::pin!(work);
        let ended = stop::finish(work.as_mut(), &stop, config.drain_timeout).await;
        let mut stopped = match ended {
            Some(_) => Stopped::Clean,
            None => Stopped::CutOff,
        };
        shutdown.cut_off();
        store.hurry();
        let drained = async {
            let ended = match ended {
                Some(ended) => ended,
                None => work.await,
            };
            terminals.drain().await;
            chats.drain().await;
            control.turns.agents().close().await;
            control_stop.cancel();
            tasks.wait().await;
            ended
        };
        match tokio::time::timeout_at(deadline, drained).await {
            Ok(outcome) => outcome?,
            Err(_) => {
                tracing::warn!("some work did not stop in time, will resume at next start");
                stopped = Stopped::CutOff;
            }
        }
        failed.unwrap_or(Ok(())).map(|()| stopped)
    }
}

/// Removes old records, now and once a day.
async fn prune(store: Store, stop: CancellationToken) {
    loop {
        match store.prune(KEPT_FOR).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "old records removed"),
            Err(error) => tracing::warn!(%error, "cannot remove old records, will retry tomorrow"),
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(86_400)) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// The adapters of all platforms that have their credentials, even if they are off: `hermesctl setup` checks
/// credentials before it enables a platform.
pub fn adapters(config: &Config, store: &Store, bus: &Bus) -> Vec<Arc<dyn Platform>> {
    let configured = config.platforms.iter().filter(|p| p.has_credentials());
    let build = |settings: &PlatformConfig| {
        let name = settings.descriptor.name;
        let context = AdapterContext::new(name, config.home.clone(), store.clone(), bus.clone());
        platform::build(settings, context).unwrap_or_else(|error| {
            tracing::error!(%error, platform = name, "cannot build adapter");
            None
        })
    };
    configured.filter_map(build).collect()
}

/// Checks the log filter and the group of the control socket, as a start does.
pub fn check(config: &Config) -> Result<(), DaemonError> {
    log::filter(&config.log)?;
    PeerPolicy::new(config.control.group.as_deref()).map_err(DaemonError::Config)?;
    Ok(())
}

/// Rebuilds the full-text index and returns the number of messages in it. Fails if a daemon or a gateway serves the
/// home.
pub fn rebuild_index(config: &Config) -> Result<i64, DaemonError> {
    let _lock = HomeLock::take(config)?;
    Ok(Store::rebuild_index(&config.home, &config.store)?)
}

/// Runs hermesd in the foreground until a signal ends it. `load` reads the configuration for a reload.
pub async fn run(
    config: Config,
    load: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static,
) -> Result<(), DaemonError> {
    let peer_policy =
        PeerPolicy::new(config.control.group.as_deref()).map_err(DaemonError::Config)?;
    // Our memory and environment hold tokens. Agents and hooks that run as the same user must not read them in /proc.
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::warn!(%error, "other programs of this user can read the memory of this process");
    }
    // Signals are handled before anything else, so that an early stop is a clean one.
    let stop = Shutdown::default();
    let hangups = stop::on_signals(&stop)?;
    let mut lock = HomeLock::take(&config)?;
    let reload = Reload {
        load: Box::new(load),
        hangups,
    };
    let Some(store) = database::open(&config, &stop.draining).await? else {
        return Ok(());
    };
    let daemon = Daemon::assemble(config.clone(), store.clone()).reloading(reload);
    let daemon = daemon.listening().await;
    let activated = listener::activated().map_err(|source| DaemonError::Io {
        what: "cannot use the socket from systemd",
        source,
    })?;
    let (listener, socket) = match activated {
        Some((listener, path)) => (listener, path.unwrap_or(config.control.socket)),
        None => {
            let listener = listener::bind(&config.control.socket, peer_policy.gid(), &config.home)?;
            (listener, config.control.socket)
        }
    };
    lock.record_socket(&socket);
    tracing::info!(message_id = journal_ids::READY, version = crate::VERSION, home = %config.home.display(), socket = %socket.display(), "hermesd is ready");
    clean_stop::forget(&config.home);
    let serving = daemon.serve(listener, peer_policy, stop.clone());
    let (served, gateway) = until_gateway(serving, &config.home, &mut lock, &stop).await;
    // Clients that are still connected hold the store, so dropping ours would not close it.
    store.close();
    let stopped = served?;
    match (gateway, stopped) {
        (None, Stopped::Clean) => clean_stop::mark(&config.home),
        (Some(_), Stopped::Clean) => clean_stop::mark_for_starting_gateway(&config.home).await,
        (_, Stopped::CutOff) => {}
    }
    if let Some(pid) = gateway {
        return Err(home_lock::gateway_took_over(&config.home, pid));
    }
    tracing::info!("stopped");
    Ok(())
}

/// Serves, and begins to stop when a Hermes gateway starts on the home. Also returns that gateway, with its process id
/// if it is known.
async fn until_gateway(
    serving: impl Future<Output = Result<Stopped, DaemonError>>,
    home: &Path,
    lock: &mut HomeLock,
    stop: &Shutdown,
) -> (Result<Stopped, DaemonError>, Option<Option<u64>>) {
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => (served, None),
        pid = gateway_watch::appeared(home, &mut lock.gateway) => {
            stop.yield_home();
            // All parts of the daemon know it before the log says so: from then on, no handoff is claimed.
            let served = tokio::select! {
                biased;
                served = &mut serving => Some(served),
                () = std::future::ready(()) => None,
            };
            let message_id = journal_ids::GATEWAY_TOOK_OVER;
            tracing::error!(message_id, "{} started on this home, stopping", home_lock::gateway_named(pid));
            let served = match served {
                Some(served) => served,
                None => serving.await,
            };
            (served, Some(pid))
        }
    }
}

/// Builds a small runtime. The daemon mostly waits, so a second worker would only be woken for nothing. Long work
/// (transcripts, files) runs in its own threads.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_secs(10))
        .enable_all()
        .build()
}
