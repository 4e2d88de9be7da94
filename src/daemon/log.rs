//! The log: structured fields in the journal when systemd holds our stderr, readable lines otherwise.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use super::DaemonError;
use crate::config::LogConfig;

pub fn start(config: &LogConfig) -> Result<(), DaemonError> {
    let filter = filter(config)?;
    let to_journal = match config.target.as_str() {
        "journal" => true,
        "stderr" => false,
        // systemd sets this for services whose stderr is the journal.
        _ => std::env::var_os("JOURNAL_STREAM").is_some(),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let _ = FILTER.set(handle);
    let registry = tracing_subscriber::registry().with(filter);
    let journal = if to_journal {
        tracing_journald::layer().ok()
    } else {
        None
    };
    let failed = |e: tracing_subscriber::util::TryInitError| {
        DaemonError::Config(format!("the log cannot be started: {e}"))
    };
    match journal {
        Some(journal) => registry
            .with(journal.with_field_prefix(Some("HERMES".into())))
            .try_init()
            .map_err(failed),
        None => {
            let lines = fmt::layer()
                .with_writer(std::io::stderr)
                .with_ansi(std::io::stderr().is_terminal())
                .with_target(false);
            registry.with(lines).try_init().map_err(failed)
        }
    }
}

/// By which a reload changes what is logged.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// From now on this is logged.
pub(super) fn change(config: &LogConfig) -> Result<(), DaemonError> {
    let filter = filter(config)?;
    match FILTER.get().map(|handle| handle.reload(filter)) {
        None | Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(DaemonError::Config(format!("log.level: {error}"))),
    }
}

pub(super) fn filter(config: &LogConfig) -> Result<EnvFilter, DaemonError> {
    EnvFilter::try_new(&config.level).map_err(|e| DaemonError::Config(format!("log.level: {e}")))
}
