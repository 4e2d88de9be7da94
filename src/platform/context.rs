//! Gives an adapter the services that it needs. An adapter does not know the database.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

use super::PlatformError;
use crate::domain::Source;
use crate::events::Bus;
use crate::name_lookup::NameLookup;
use crate::private_files;
use crate::store::{Store, StoreError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection is dead when the other side confirms nothing for this time.
const UNCONFIRMED: Duration = Duration::from_secs(60);

/// Why an adapter cannot be built from its settings.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BuildError(pub String);

/// The position up to which an adapter has received events.
#[derive(Debug, Clone, PartialEq)]
pub struct Cursor {
    pub value: String,
    /// When the adapter stored it, in seconds since 1970.
    pub at: f64,
}

/// The services for the adapter of one platform.
#[derive(Clone)]
pub struct AdapterContext {
    platform: &'static str,
    home: PathBuf,
    store: Store,
    bus: Bus,
}

impl AdapterContext {
    pub fn new(platform: &'static str, home: PathBuf, store: Store, bus: Bus) -> AdapterContext {
        AdapterContext {
            platform,
            home,
            store,
            bus,
        }
    }

    /// The stored position of an account.
    pub async fn cursor(&self, account: &str) -> Result<Option<Cursor>, PlatformError> {
        let found = self.store.cursor(self.platform, account).await;
        let found = found.map_err(storage)?;
        Ok(found.map(|(value, at)| Cursor { value, at }))
    }

    pub async fn set_cursor(&self, account: &str, value: &str) -> Result<(), PlatformError> {
        let stored = self.store.set_cursor(self.platform, account, value).await;
        stored.map_err(storage)
    }

    /// The old and the new id of every chat that has moved.
    pub async fn moved_chats(&self) -> Result<Vec<(String, String)>, PlatformError> {
        let moved = self.store.moved_chats(self.platform).await;
        moved.map_err(storage)
    }

    /// The chats of the platform that are on a session, the latest first, up to a limit.
    pub async fn bound_chats(&self, most: usize) -> Result<Vec<Source>, PlatformError> {
        let bound = self.store.bound_chats(self.platform, most).await;
        bound.map_err(storage)
    }

    /// Whether a handoff has this thread, by the vendor's id.
    pub async fn is_thread_of_handoff(&self, thread_id: &str) -> Result<bool, PlatformError> {
        let found = self
            .store
            .is_thread_of_handoff(self.platform, thread_id)
            .await;
        found.map_err(storage)
    }

    /// A directory of the adapter's own, which other users cannot read. Creates it.
    pub fn data_directory(&self) -> Result<PathBuf, PlatformError> {
        let path = self.home.join("hermesd").join(self.platform);
        private_files::directory(&path)
            .map_err(|e| PlatformError::Permanent(format!("{}: {e}", path.display())))?;
        Ok(path)
    }

    /// Whether Hermes' home has this file.
    pub fn has_home_file(&self, name: &str) -> bool {
        self.home.join(name).exists()
    }

    /// A client that follows no redirects, resolves names on threads of its own and notices dead connections. Each
    /// request sets its own timeout.
    pub fn http_client(&self) -> Result<Client, BuildError> {
        let builder = || {
            Client::builder()
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_nodelay(true)
                .tcp_keepalive(UNCONFIRMED)
                .tcp_user_timeout(UNCONFIRMED)
                .dns_resolver(Arc::new(NameLookup::default()))
                // An address or a header may contain a token, which is for one server only.
                .redirect(Policy::none())
                .referer(false)
                .user_agent(concat!("hermesd/", env!("CARGO_PKG_VERSION")))
        };
        // The built-in certificates are enough for the vendors' own servers.
        let client = builder().build().or_else(|error| {
            tracing::warn!(%error, "system certificates cannot be used, using the built-in ones");
            builder().tls_built_in_native_certs(false).build()
        });
        client.map_err(|error| BuildError(format!("no HTTP client: {}", root_cause(&error))))
    }

    /// Only for the embedded platform: it publishes the messages of its chats.
    pub(super) fn events(&self) -> &Bus {
        &self.bus
    }

    /// Only for the embedded platform: its chats are rows of the store.
    pub(super) fn embedded_chats(&self) -> &Store {
        &self.store
    }
}

fn storage(error: StoreError) -> PlatformError {
    PlatformError::Storage(error.to_string())
}

/// The innermost cause of a failed request, without its address, which may contain a token.
pub(super) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<reqwest::Error>() {
        Some(error) if error.is_timeout() => "no answer in time".into(),
        Some(_) => "the connection broke".into(),
        None => innermost.to_string(),
    }
}
