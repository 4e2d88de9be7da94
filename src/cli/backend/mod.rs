//! Gives the verbs their data: from the daemon if one serves this home, otherwise from `state.db`. Verbs call
//! [`Backend`], and need not know which it is unless only a daemon can perform them.

mod daemon;
mod direct;

use async_trait::async_trait;

pub(super) use daemon::{DaemonBackend, find_daemon};
pub(super) use direct::DirectBackend;

use super::CliError;
use super::args::GlobalArgs;
use super::handoff::WaitLimits;
use super::output::Output;
use crate::client::Client;
use crate::config::{self, Config, Overrides};
use crate::handoff::request::HandoffWish;
use crate::protocol::{
    HandoffList, HandoffView, HitView, LocalMessageView, LocalRead, LocalThreadView, PlatformView,
    ResumedView, SessionList, SessionRename, SessionSearch, SessionView, StatusView,
    TranscriptView, TranscriptWish,
};

/// The operations that work with a daemon and without one.
#[async_trait(?Send)]
pub(super) trait Backend {
    /// The connection to the daemon, for operations that need one.
    fn daemon(&self) -> Result<&Client, CliError>;

    async fn sessions(&self, wish: SessionList) -> Result<Vec<SessionView>, CliError>;
    /// `name` is an id, the beginning of one, or a title.
    async fn session(&self, name: &str) -> Result<SessionView, CliError>;
    /// One page of a transcript.
    async fn transcript(&self, wish: TranscriptWish) -> Result<TranscriptView, CliError>;
    /// The whole transcript, for an export.
    async fn whole_transcript(&self, name: &str) -> Result<TranscriptView, CliError>;
    async fn search(&self, wish: SessionSearch) -> Result<Vec<HitView>, CliError>;
    async fn rename(&self, wish: SessionRename) -> Result<SessionView, CliError>;
    /// Brings a session back from its chat. Without a name, the only session that was handed off.
    async fn resume(&self, name: Option<String>) -> Result<ResumedView, CliError>;

    async fn handoffs(&self, wish: HandoffList) -> Result<Vec<HandoffView>, CliError>;
    async fn handoff(&self, id: i64) -> Result<HandoffView, CliError>;
    async fn request_handoff(&self, wish: HandoffWish) -> Result<HandoffView, CliError>;
    /// Prints the stages of a requested handoff until it has ended.
    async fn follow_handoff(
        &self,
        out: &Output,
        handoff: HandoffView,
        limits: WaitLimits,
    ) -> Result<(), CliError>;
    async fn cancel_handoff(&self, id: i64) -> Result<HandoffView, CliError>;

    async fn platforms(&self) -> Result<Vec<PlatformView>, CliError>;
    async fn status(&self) -> Result<Status, CliError>;
    async fn local_threads(&self) -> Result<Vec<LocalThreadView>, CliError>;
    async fn local_messages(&self, wish: LocalRead) -> Result<Vec<LocalMessageView>, CliError>;
}

pub(super) enum Status {
    /// A daemon serves the home.
    Served(StatusView),
    /// No daemon serves the home.
    Unserved {
        sessions: i64,
        handoffs_in_flight: usize,
    },
}

/// The home and the daemon that the command line names.
pub(super) struct Target {
    pub(super) overrides: Overrides,
    pub(super) socket_is_explicit: bool,
}

impl Target {
    pub(super) fn new(args: &GlobalArgs) -> Target {
        let socket = args.socket.iter();
        Target {
            overrides: Overrides {
                config: args.config.clone(),
                home: args.home.clone(),
                profile: args.profile.clone(),
                values: socket
                    .map(|socket| ("control.socket", socket.display().to_string()))
                    .collect(),
            },
            socket_is_explicit: args.socket.is_some(),
        }
    }

    pub(super) fn config(&self) -> Result<Config, CliError> {
        Ok(config::load(crate::platform::schema(), &self.overrides)?)
    }

    /// Connects to the daemon that serves the home, or opens its database.
    pub(super) async fn open(&self) -> Result<(Config, Box<dyn Backend>), CliError> {
        let config = self.config()?;
        let backend = open(&config, self.socket_is_explicit).await?;
        Ok((config, backend))
    }

    /// For verbs that mostly read. It also opens a database that can only be read.
    pub(super) async fn open_to_read(&self) -> Result<Box<dyn Backend>, CliError> {
        let config = self.config()?;
        Ok(match find_daemon(&config, self.socket_is_explicit).await? {
            Some(client) => Box::new(DaemonBackend::new(&config, client)),
            None => Box::new(DirectBackend::open_to_read(&config)?),
        })
    }
}

/// Connects to the daemon that serves the home, or opens its database.
pub(super) async fn open(
    config: &Config,
    socket_is_explicit: bool,
) -> Result<Box<dyn Backend>, CliError> {
    Ok(match find_daemon(config, socket_is_explicit).await? {
        Some(client) => Box::new(DaemonBackend::new(config, client)),
        None => Box::new(DirectBackend::open(config)?),
    })
}
